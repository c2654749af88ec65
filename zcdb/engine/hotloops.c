/* The timed loops over plain system calls: six senders and three receivers.
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
		ssize_t taken = step(&run, length);

		if (taken > 0) {
			count_call(&run, length, (size_t)taken);
			advance(&run, (size_t)taken);
		} else if (taken == 0) {
			err = -ENODATA;	/* a file has become shorter */
			break;
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
	ssize_t got = pread(run->extent->fd, run->job->memory, length, (off_t)run->position);

	return got > 0 ? write(run->job->socket_fd, run->job->memory, (size_t)got) : got;
}

ZC_INLINE ssize_t sendfile_step(struct send_run *run, size_t length)
{
	off_t offset = (off_t)run->position;

	return sendfile(run->job->socket_fd, run->extent->fd, &offset, length);
}

ZC_INLINE ssize_t splice_step(struct send_run *run, size_t length)
{
	off_t offset = (off_t)run->position;
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

/* A receiver's step returns the bytes taken out of the socket, 0 at its end, or -1 with errno. */
typedef ssize_t receive_step(const struct zc_receive_job *job);

static void check_pattern(const struct zc_receive_job *job, uint64_t stream_offset, size_t count)
{
	struct zc_counters *counters = job->counters;
	uint64_t done = 0;

	while (done < count) {
		uint64_t offset = stream_offset + done;
		uint64_t some = count - done;
		uint64_t mismatches;
		uint64_t bad = 0;

		if (job->period_bytes) {
			offset %= job->period_bytes;
			if (some > job->period_bytes - offset)
				some = job->period_bytes - offset;
		}
		mismatches = zc_pattern_mismatches(job->memory + done, some, offset, &bad);
		if (mismatches && !counters->mismatch_bytes)
			publish(&counters->first_bad_offset, stream_offset + done + bad - offset);
		publish(&counters->mismatch_bytes, counters->mismatch_bytes + mismatches);
		done += some;
	}
}

ZC_INLINE int run_receiver(const struct zc_receive_job *job, receive_step *step)
{
	struct watch watch = watch_begin(job->stop, job->deadline_ns, job->receive_bytes);
	struct zc_counters *counters = job->counters;
	uint64_t payload_bytes = 0;
	uint64_t calls = 0;
	int err = 0;

	publish(&counters->state, ZC_STATE_RUNNING);
	while (goes_on(&watch)) {
		ssize_t got = step(job);

		if (got > 0) {
			if (job->checks_pattern)
				check_pattern(job, payload_bytes, (size_t)got);
			payload_bytes += (uint64_t)got;
			publish(&counters->payload_bytes, payload_bytes);
			publish(&counters->calls, ++calls);
		} else if (got == 0) {
			break;
		} else if (errno != EINTR) {
			err = -errno;
			break;
		}
	}
	publish(&counters->state, ZC_STATE_ENDED);
	return is_stopped(&watch) ? 0 : err;
}

ZC_INLINE ssize_t recv_step(const struct zc_receive_job *job)
{
	return recv(job->socket_fd, job->memory, job->receive_bytes, 0);
}

/* With MSG_TRUNC a TCP socket drops the bytes instead of copying them out. */
ZC_INLINE ssize_t recv_trunc_step(const struct zc_receive_job *job)
{
	return recv(job->socket_fd, job->memory, job->receive_bytes, MSG_TRUNC);
}

ZC_INLINE ssize_t splice_null_step(const struct zc_receive_job *job)
{
	ssize_t got = splice(job->socket_fd, NULL, job->pipe_write_fd, NULL,
			     job->receive_bytes, 0);
	ssize_t dropped = 0;

	while (dropped < got) {
		ssize_t some = splice(job->pipe_read_fd, NULL, job->null_fd, NULL,
				      (size_t)(got - dropped), 0);

		if (some > 0)
			dropped += some;
		else if (some == 0 || errno != EINTR)
			return some;
	}
	return got;
}

int zc_receive_recv(const struct zc_receive_job *job)
{
	return run_receiver(job, recv_step);
}

int zc_receive_recv_trunc(const struct zc_receive_job *job)
{
	return run_receiver(job, recv_trunc_step);
}

int zc_receive_splice_null(const struct zc_receive_job *job)
{
	return run_receiver(job, splice_null_step);
}
