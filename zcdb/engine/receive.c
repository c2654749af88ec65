/* The timed loops of the receivers over plain system calls. */
#define _GNU_SOURCE	/* splice */
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "receive.h"

/* How long a receiver that maps waits before it looks at the stop word again. */
#define ZC_MAPPING_WAIT_MS 100
#define ZC_WIDEST_GAP (UINT64_C(1) << 48)

ZC_INLINE ssize_t recv_step(const struct zc_receive_job *job, void *state)
{
	(void)state;
	return recv(job->socket_fd, job->memory, job->receive_bytes, 0);
}

/* With MSG_TRUNC a TCP socket drops the bytes instead of copying them out. */
ZC_INLINE ssize_t recv_trunc_step(const struct zc_receive_job *job, void *state)
{
	(void)state;
	return recv(job->socket_fd, job->memory, job->receive_bytes, MSG_TRUNC);
}

ZC_INLINE ssize_t splice_null_step(const struct zc_receive_job *job, void *state)
{
	ssize_t got = splice(job->socket_fd, NULL, job->pipe_write_fd, NULL,
			     job->receive_bytes, 0);
	ssize_t dropped = 0;

	(void)state;
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
	return run_receiver(job, recv_step, NULL);
}

int zc_receive_recv_trunc(const struct zc_receive_job *job)
{
	return run_receiver(job, recv_trunc_step, NULL);
}

int zc_receive_splice_null(const struct zc_receive_job *job)
{
	return run_receiver(job, splice_null_step, NULL);
}

/* -- mapping instead of copying ------------------------------------------------------------- */

/* Address space for the payload of one call; the pages of the last one are
 * given back when the next ones are put in their place. */
struct mapping {
	uint8_t *window;
	uint64_t mapped_bytes;
};

/* Wait for payload, a little.  Returns -1 with EAGAIN when there is some or may
 * be, and 0 at the end of the stream; takes nothing, so that it can be mapped. */
static ssize_t wait_for_payload(const struct zc_receive_job *job)
{
	struct pollfd poller = { .fd = job->socket_fd, .events = POLLIN };
	ssize_t got = 1;

	if (poll(&poller, 1, ZC_MAPPING_WAIT_MS) > 0)
		got = recv(job->socket_fd, job->memory, 1, MSG_PEEK | MSG_DONTWAIT);
	if (got > 0) {
		errno = EAGAIN;
		got = -1;
	}
	return got;
}

/* Map what lies in whole pages; where the next bytes do not, the kernel says how
 * many have to be copied before it can map again. */
ZC_INLINE ssize_t zerocopy_receive_step(const struct zc_receive_job *job, void *state)
{
	struct mapping *mapping = state;
	struct tcp_zerocopy_receive call = {
		.address = (uint64_t)(uintptr_t)mapping->window,
		.length = (uint32_t)job->receive_bytes,
	};
	socklen_t call_bytes = sizeof(call);
	size_t rest;

	if (getsockopt(job->socket_fd, IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE, &call, &call_bytes))
		return errno == EIO ? 0 : -1;	/* EIO: the stream has ended */
	if (call.length) {
		publish(&job->counters->mapped_bytes, mapping->mapped_bytes += call.length);
		return call.length;
	}
	rest = call.recv_skip_hint;
	if (!rest)
		return wait_for_payload(job);
	return recv(job->socket_fd, job->memory,
		    rest < job->receive_bytes ? rest : job->receive_bytes, 0);
}

int zc_receive_zerocopy_receive(const struct zc_receive_job *job)
{
	struct mapping mapping = { .mapped_bytes = 0 };
	int err;

	mapping.window = mmap(NULL, job->receive_bytes, PROT_READ, MAP_SHARED, job->socket_fd, 0);
	if (mapping.window == MAP_FAILED)
		return -errno;
	err = run_receiver(job, zerocopy_receive_step, &mapping);
	munmap(mapping.window, job->receive_bytes);
	return err;
}

int zc_probe_zerocopy_receive(int socket_fd)
{
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	void *window = mmap(NULL, page_bytes, PROT_READ, MAP_SHARED, socket_fd, 0);
	struct tcp_zerocopy_receive call = { .length = (uint32_t)page_bytes };
	socklen_t call_bytes = sizeof(call);
	int err = 0;

	if (window == MAP_FAILED)
		return -errno;
	call.address = (uint64_t)(uintptr_t)window;
	if (getsockopt(socket_fd, IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE, &call, &call_bytes))
		err = -errno;
	munmap(window, page_bytes);
	return err;
}

/* -- datagrams ------------------------------------------------------------------------------ */

struct arrivals {
	uint64_t next;		/* the number after the highest one so far */
	uint64_t datagrams;
	uint64_t lost;
	uint64_t reordered;
};

/* A gap is a loss until what belongs there comes late; the same number twice is
 * taken for that too, which networks hardly ever do.  A number far off is none:
 * it is a hello that was said again. */
ZC_INLINE void note_arrival(struct zc_counters *counters, struct arrivals *arrivals,
			    uint64_t number)
{
	if (number >= arrivals->next) {
		if (number - arrivals->next > ZC_WIDEST_GAP)
			return;
		if (number > arrivals->next)
			publish(&counters->lost, arrivals->lost += number - arrivals->next);
		arrivals->next = number + 1;
		return;
	}
	publish(&counters->reordered, ++arrivals->reordered);
	if (arrivals->lost)
		publish(&counters->lost, --arrivals->lost);
}

ZC_INLINE ssize_t datagram_step(const struct zc_receive_job *job, void *state)
{
	struct arrivals *arrivals = state;
	ssize_t got = recv(job->socket_fd, job->memory, job->receive_bytes, 0);

	if (got > 0) {
		publish(&job->counters->datagrams, ++arrivals->datagrams);
		if (got >= ZC_DATAGRAM_NUMBER_BYTES) {
			uint64_t number;

			memcpy(&number, job->memory, sizeof(number));
			note_arrival(job->counters, arrivals, be64toh(number));
		}
	}
	return got;
}

int zc_receive_datagrams(const struct zc_receive_job *job)
{
	struct arrivals arrivals = { .next = 0 };

	return run_receiver(job, datagram_step, &arrivals);
}
