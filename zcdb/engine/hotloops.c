/* The timed loops of the senders over plain system calls.
 *
 * Everything that need not be timed (sockets, files, memory, options) is made
 * in Python beforehand.  A loop makes no other system call than the ones it
 * measures, except a rare look at the clock. */
#define _GNU_SOURCE	/* splice */
#include <fcntl.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "loop.h"

/* A step moves up to `length` bytes and returns how many the socket took, or -1 with errno. */
typedef ssize_t send_step(struct send_run *run, size_t length);

/* Let the next pass come from disk.  Pages that are still on their way through
 * the socket cannot be dropped; they are counted. */
static __attribute__((noinline)) void drop_cache(const struct zc_send_job *job)
{
	struct zc_counters *counters = job->counters;
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);

	for (uint32_t i = 0; i < job->extents_count; i++) {
		const struct zc_extent *extent = job->extents + i;
		uint64_t first = extent->offset / page_bytes;
		uint64_t end = (extent->offset + extent->bytes + page_bytes - 1) / page_bytes;
		int64_t kept;

		posix_fadvise(extent->fd, (off_t)(first * page_bytes),
			      (off_t)((end - first) * page_bytes), POSIX_FADV_DONTNEED);
		kept = zc_cached_pages(extent->fd, extent->offset, extent->bytes);
		if (kept < 0)
			kept = (int64_t)(end - first);	/* not known to be gone */
		publish(&counters->kept_pages, counters->kept_pages + (uint64_t)kept);
		publish(&counters->dropped_pages,
			counters->dropped_pages + (end - first) - (uint64_t)kept);
	}
}

ZC_INLINE void advance(struct send_run *run, size_t taken)
{
	run->position += taken;
	if (run->position < run->extent->bytes)
		return;
	run->position = 0;
	if (++run->extent < run->job->extents + run->job->extents_count)
		return;
	run->extent = run->job->extents;
	publish(&run->job->counters->passes, ++run->passes);
	if (run->job->drops_cache)
		drop_cache(run->job);
}

/* A message never reaches over the end of its extent; after a short call the
 * next one goes on at the byte that the kernel did not take.  So what is sent
 * is the working set, byte after byte, whatever the kernel does. */
ZC_INLINE size_t next_length(const struct send_run *run)
{
	uint64_t length = run->job->message_bytes;

	if (length > run->extent->bytes - run->position)
		length = run->extent->bytes - run->position;
	return length < run->left_bytes ? length : run->left_bytes;
}

ZC_INLINE int run_sender(const struct zc_send_job *job, send_step *step)
{
	struct send_run run;
	int err = 0;

	send_begin(&run, job);
	while (send_goes_on(&run)) {
		size_t length = next_length(&run);
		ssize_t taken;

		before_call(&run);
		taken = step(&run, length);
		if (taken > 0) {
			count_call(&run, length, (size_t)taken);
			if (job->datagram_bytes)
				count_datagrams(&run, (size_t)taken);
			advance(&run, (size_t)taken);
		} else if (taken == 0) {
			err = -ENODATA;	/* a file has become shorter */
			break;
		} else if (errno == ENOBUFS && job->datagram_bytes) {
			/* The interface's queue is full, as datagrams find out. */
			publish(&job->counters->enobufs, job->counters->enobufs + 1);
		} else if (errno != EINTR) {
			err = -errno;
			break;
		}
	}
	return send_end(&run, err);
}

ZC_INLINE const uint8_t *message(struct send_run *run, size_t length)
{
	uint8_t *bytes = run->job->memory + run->position;

	if (run->job->fills_pattern)
		zc_pattern_fill(bytes, length, run->payload_bytes);
	if (run->job->datagram_bytes)
		number_datagrams(run, bytes, length);
	return bytes;
}

ZC_INLINE ssize_t write_step(struct send_run *run, size_t length)
{
	return write(run->job->socket_fd, message(run, length), length);
}

ZC_INLINE ssize_t send_step_(struct send_run *run, size_t length)
{
	return send(run->job->socket_fd, message(run, length), length, MSG_NOSIGNAL);
}

/* The pieces lie one after another: what costs is that there are many, not
 * where they are. */
ZC_INLINE ssize_t sendmsg_step(struct send_run *run, size_t length)
{
	struct iovec pieces[ZC_FRAGMENTS_LIMIT];
	size_t fragments = run->job->fragments;
	size_t piece_bytes = length / fragments;
	size_t longer_pieces = length % fragments;
	uint8_t *bytes = (uint8_t *)message(run, length);
	struct msghdr header = { .msg_iov = pieces, .msg_iovlen = fragments };

	for (size_t i = 0; i < fragments; i++) {
		pieces[i].iov_base = bytes;
		pieces[i].iov_len = piece_bytes + (i < longer_pieces);
		bytes += pieces[i].iov_len;
	}
	return sendmsg(run->job->socket_fd, &header, MSG_NOSIGNAL);
}

ZC_INLINE ssize_t read_write_step(struct send_run *run, size_t length)
{
	off_t offset = (off_t)(run->extent->offset + run->position);
	ssize_t got = pread(run->extent->fd, run->job->memory, length, offset);

	return got > 0 ? write(run->job->socket_fd, run->job->memory, (size_t)got) : got;
}

ZC_INLINE ssize_t sendfile_step(struct send_run *run, size_t length)
{
	off_t offset = (off_t)(run->extent->offset + run->position);

	return sendfile(run->job->socket_fd, run->extent->fd, &offset, length);
}

ZC_INLINE ssize_t splice_step(struct send_run *run, size_t length)
{
	off_t offset = (off_t)(run->extent->offset + run->position);
	ssize_t got = splice(run->extent->fd, &offset, run->job->pipe_write_fd, NULL, length, 0);
	ssize_t taken = 0;

	while (taken < got) {
		ssize_t some = splice(run->job->pipe_read_fd, NULL, run->job->socket_fd, NULL,
				      (size_t)(got - taken), 0);

		if (some > 0)
			taken += some;
		else if (some == 0 || errno != EINTR)
			return some;
	}
	return got;
}

int zc_send_write(const struct zc_send_job *job)
{
	return run_sender(job, write_step);
}

int zc_send_send(const struct zc_send_job *job)
{
	return run_sender(job, send_step_);
}

int zc_send_sendmsg(const struct zc_send_job *job)
{
	return run_sender(job, sendmsg_step);
}

int zc_send_read_write(const struct zc_send_job *job)
{
	return run_sender(job, read_write_step);
}

int zc_send_sendfile(const struct zc_send_job *job)
{
	return run_sender(job, sendfile_step);
}

int zc_send_splice(const struct zc_send_job *job)
{
	return run_sender(job, splice_step);
}
