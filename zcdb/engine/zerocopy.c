/* The timed loop over send(MSG_ZEROCOPY) with its notifications.
 *
 * The kernel numbers a socket's zero-copy sends from 0 and reports ranges of
 * numbers on the error queue; `sends` remembers which buffer each send in
 * flight has.  Over loopback and veth the kernel copies every send after all
 * and says so in the notification: `copied` counts those. */
#include <time.h>	/* errqueue.h needs it and does not say so */
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "pool.h"

#ifndef MSG_ZEROCOPY
#define MSG_ZEROCOPY 0x4000000
#endif
#ifndef SO_EE_CODE_ZEROCOPY_COPIED
#define SO_EE_CODE_ZEROCOPY_COPIED 1
#endif

#define ZC_NO_BUFFER UINT32_MAX
/* Notifications merge into ranges while they wait: reading them seldom is cheap. */
#define ZC_REAP_CALLS 16

struct notices {
	struct pool pool;
	uint32_t next_send;	/* the kernel's number of the next send; wraps */
	uint32_t mask;
	uint64_t completions;
	uint64_t copied;
	uint64_t enobufs;
};

/* Take back the buffers of the sends `low` to `high`, both included. */
static void take_back(struct send_run *run, struct notices *notices, uint32_t low, uint32_t high,
		      bool is_copied)
{
	struct zc_counters *counters = run->job->counters;
	uint32_t count = high - low + 1;

	for (uint32_t send = low; send != high + 1; send++) {
		uint32_t *buffer = &run->job->sends[send & notices->mask];

		if (*buffer != ZC_NO_BUFFER)
			pool_give(&notices->pool, *buffer);
		*buffer = ZC_NO_BUFFER;
	}
	if (is_copied)
		publish(&counters->copied, notices->copied += count);
	publish(&counters->completions, notices->completions += count);
}

/* Read one notification.  Returns 1, 0 if there is none, or -errno. */
static int reap_one(struct send_run *run, struct notices *notices)
{
	char control[CMSG_SPACE(sizeof(struct sock_extended_err) + sizeof(struct sockaddr_in6))];
	struct msghdr header = { .msg_control = control, .msg_controllen = sizeof(control) };
	const struct sock_extended_err *error;
	struct cmsghdr *message;

	if (recvmsg(run->job->socket_fd, &header, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
		return errno == EAGAIN ? 0 : errno == EINTR ? 1 : -errno;
	message = CMSG_FIRSTHDR(&header);
	if (!message)
		return -EBADMSG;
	error = (const struct sock_extended_err *)CMSG_DATA(message);
	if (error->ee_origin != SO_EE_ORIGIN_ZEROCOPY)
		return error->ee_errno ? -(int)error->ee_errno : -EBADMSG;
	take_back(run, notices, error->ee_info, error->ee_data,
		  error->ee_code & SO_EE_CODE_ZEROCOPY_COPIED);
	return 1;
}

static int reap(struct send_run *run, struct notices *notices)
{
	int got;

	do
		got = reap_one(run, notices);
	while (got > 0);
	return got;
}

/* Take what notifications there are; if there are none, wait for the next one,
 * a little.  The error queue is signalled as POLLERR. */
static int wait_and_reap(struct send_run *run, struct notices *notices)
{
	struct pollfd poller = { .fd = run->job->socket_fd };
	uint64_t completions = notices->completions;
	int err = reap(run, notices);

	if (err || notices->completions != completions)
		return err;
	if (poll(&poller, 1, ZC_POOL_WAIT_MS) < 0 && errno != EINTR)
		return -errno;
	/* A socket that was shut down is always ready, and notifications may still come. */
	if (poller.revents && !(poller.revents & POLLERR))
		poll(NULL, 0, ZC_POOL_WAIT_MS / 10);
	return reap(run, notices);
}

/* Send one message.  Returns 0 or -errno. */
ZC_INLINE int send_one(struct send_run *run, struct notices *notices)
{
	uint32_t number = pool_take(&notices->pool);
	size_t length = pool_length(run);
	uint8_t *bytes = pool_message(run, number, length);
	ssize_t taken;

	before_call(run);
	taken = send(run->job->socket_fd, bytes, length, MSG_ZEROCOPY | MSG_NOSIGNAL);
	if (taken >= 0) {
		run->job->sends[notices->next_send++ & notices->mask] = number;
		count_pool_call(run, &notices->pool, length, (size_t)taken);
		return 0;
	}
	pool_give(&notices->pool, number);
	if (errno == EINTR)
		return 0;
	/* Notification memory is used up; with nothing in flight none will come back. */
	if (errno != ENOBUFS || notices->pool.free == notices->pool.capacity)
		return -errno;
	publish(&run->job->counters->enobufs, ++notices->enobufs);
	return wait_and_reap(run, notices);
}

static int drain(struct send_run *run, struct notices *notices)
{
	uint64_t end_ns = now_ns() + ZC_DRAIN_NS;
	int err = 0;

	while (!err && notices->completions < run->calls) {
		if (now_ns() > end_ns)
			return -ETIME;
		err = wait_and_reap(run, notices);
	}
	return err;
}

int zc_send_msg_zerocopy(const struct zc_send_job *job)
{
	struct notices notices = { .pool = pool_begin(job), .mask = job->sends_count - 1 };
	uint32_t until_reap = ZC_REAP_CALLS;
	struct send_run run;
	int drained;
	int err = 0;

	memset(job->sends, 0xff, job->sends_count * sizeof(*job->sends));
	send_begin(&run, job);
	while (!err && send_goes_on(&run)) {
		bool is_number_free = job->sends[notices.next_send & notices.mask] == ZC_NO_BUFFER;

		if (!notices.pool.free || !is_number_free) {
			err = wait_and_reap(&run, &notices);
			continue;
		}
		err = send_one(&run, &notices);
		if (!err && --until_reap == 0) {
			until_reap = ZC_REAP_CALLS;
			err = reap(&run, &notices);
		}
	}
	drained = drain(&run, &notices);
	err = send_end(&run, err);
	return err ? err : drained;
}
