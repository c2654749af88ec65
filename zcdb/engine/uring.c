/* The timed loops over io_uring, one send or receive in flight, so that the order
 * of the bytes holds.
 *
 * Raw system calls instead of liburing: what is needed of it are the three
 * mappings and one submission below, and zcdb then builds with nothing but a
 * compiler.  Values that older kernel headers lack are stated here; they are
 * the kernel's ABI. */
#include <linux/io_uring.h>
#include <linux/time_types.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pool.h"
#include "receive.h"

#define ZC_SETUP_CQSIZE (1u << 3)
#define ZC_SETUP_SINGLE_ISSUER (1u << 12)
#define ZC_SETUP_DEFER_TASKRUN (1u << 13)
#define ZC_ENTER_GETEVENTS (1u << 0)
#define ZC_ENTER_EXT_ARG (1u << 3)
#define ZC_OP_SEND_ZC 47
#define ZC_SEND_ZC_REPORT_USAGE (1u << 3)
#define ZC_CQE_MORE (1u << 1)
#define ZC_CQE_NOTIFICATION (1u << 3)
#define ZC_NOTIFICATION_COPIED (1u << 31)

#define ZC_SUBMISSIONS 8
#define ZC_COMPLETIONS_LIMIT 32768

struct ring {
	int fd;
	uint8_t *map;
	size_t map_bytes;
	struct io_uring_sqe *sqes;
	size_t sqes_bytes;
	uint32_t *sq_tail;
	uint32_t *sq_array;
	uint32_t sq_mask;
	uint32_t *cq_head;
	const uint32_t *cq_tail;
	const struct io_uring_cqe *cqes;
	uint32_t cq_mask;
};

static void ring_close(struct ring *ring)
{
	if (ring->sqes)
		munmap(ring->sqes, ring->sqes_bytes);
	if (ring->map)
		munmap(ring->map, ring->map_bytes);
	close(ring->fd);
}

static int ring_setup(struct io_uring_params *params, uint32_t completions)
{
	static const uint32_t flags[] = { ZC_SETUP_SINGLE_ISSUER | ZC_SETUP_DEFER_TASKRUN, 0 };

	/* The first set saves interrupting the sender (kernel 6.1); the other works everywhere. */
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		long fd;

		memset(params, 0, sizeof(*params));
		params->flags = flags[i] | ZC_SETUP_CQSIZE;
		params->cq_entries = completions;
		fd = syscall(__NR_io_uring_setup, ZC_SUBMISSIONS, params);
		if (fd >= 0 || errno != EINVAL)
			return fd >= 0 ? (int)fd : -errno;
	}
	return -EINVAL;
}

static int ring_open(struct ring *ring, uint32_t completions)
{
	struct io_uring_params params;
	size_t cq_bytes;
	void *map;

	*ring = (struct ring) { .fd = ring_setup(&params, completions) };
	if (ring->fd < 0)
		return ring->fd;
	if (!(params.features & IORING_FEAT_SINGLE_MMAP)) {
		close(ring->fd);
		return -ENOSYS;
	}
	ring->map_bytes = params.sq_off.array + params.sq_entries * sizeof(uint32_t);
	cq_bytes = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
	if (ring->map_bytes < cq_bytes)
		ring->map_bytes = cq_bytes;
	map = mmap(NULL, ring->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
		   ring->fd, IORING_OFF_SQ_RING);
	if (map == MAP_FAILED)
		goto failed;
	ring->map = map;
	ring->sqes_bytes = params.sq_entries * sizeof(struct io_uring_sqe);
	map = mmap(NULL, ring->sqes_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
		   ring->fd, IORING_OFF_SQES);
	if (map == MAP_FAILED)
		goto failed;
	ring->sqes = map;
	ring->sq_tail = (uint32_t *)(ring->map + params.sq_off.tail);
	ring->sq_array = (uint32_t *)(ring->map + params.sq_off.array);
	ring->sq_mask = *(uint32_t *)(ring->map + params.sq_off.ring_mask);
	ring->cq_head = (uint32_t *)(ring->map + params.cq_off.head);
	ring->cq_tail = (const uint32_t *)(ring->map + params.cq_off.tail);
	ring->cqes = (const struct io_uring_cqe *)(ring->map + params.cq_off.cqes);
	ring->cq_mask = *(uint32_t *)(ring->map + params.cq_off.ring_mask);
	return 0;
failed:
	{
		int err = -errno;

		ring_close(ring);
		return err;
	}
}

/* Submit what is queued and wait for a completion, for `wait_ms` at most if
 * that is not 0.  Returns how many were submitted, or -errno; a wait that ended
 * without a completion is no error. */
ZC_INLINE int ring_enter(struct ring *ring, uint32_t submissions, uint32_t wait_ms)
{
	struct __kernel_timespec timeout = { .tv_nsec = wait_ms * 1000000ll };
	struct io_uring_getevents_arg extra = { .ts = (uint64_t)(uintptr_t)&timeout };
	uint32_t flags = ZC_ENTER_GETEVENTS | (wait_ms ? ZC_ENTER_EXT_ARG : 0);
	long done = syscall(__NR_io_uring_enter, ring->fd, submissions, 1, flags,
			    wait_ms ? &extra : NULL, wait_ms ? sizeof(extra) : 0);

	if (done >= 0)
		return (int)done;
	return errno == EINTR || errno == ETIME ? 0 : -errno;
}

/* Queue a send or a receive. */
ZC_INLINE void ring_queue(struct ring *ring, uint8_t opcode, int fd, const void *bytes,
			  size_t length, uint64_t user_data)
{
	uint32_t tail = *ring->sq_tail;
	uint32_t place = tail & ring->sq_mask;
	struct io_uring_sqe *sqe = ring->sqes + place;

	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = opcode;
	sqe->fd = fd;
	sqe->addr = (uint64_t)(uintptr_t)bytes;
	sqe->len = (uint32_t)length;
	/* Like a blocking send(): the call is done when the whole message is taken. */
	if (opcode != IORING_OP_RECV)
		sqe->msg_flags = MSG_WAITALL | MSG_NOSIGNAL;
	sqe->ioprio = opcode == ZC_OP_SEND_ZC ? ZC_SEND_ZC_REPORT_USAGE : 0;
	sqe->user_data = user_data;
	ring->sq_array[place] = place;
	__atomic_store_n(ring->sq_tail, tail + 1, __ATOMIC_RELEASE);
}

ZC_INLINE bool ring_next(struct ring *ring, struct io_uring_cqe *cqe)
{
	uint32_t head = *ring->cq_head;

	if (head == __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE))
		return false;
	memcpy(cqe, ring->cqes + (head & ring->cq_mask), sizeof(*cqe));
	__atomic_store_n(ring->cq_head, head + 1, __ATOMIC_RELEASE);
	return true;
}

/* A sender over io_uring; `pool` and what follows is used by SEND_ZC alone. */
struct ring_run {
	struct send_run run;
	struct ring ring;
	struct pool pool;
	uint64_t completions;
	uint64_t copied;
	bool is_sending;	/* the one send is in flight */
	int result;		/* of the last one: bytes or -errno */
};

ZC_INLINE void handle(struct ring_run *uring, const struct io_uring_cqe *cqe)
{
	struct zc_counters *counters = uring->run.job->counters;

	if (!(cqe->flags & ZC_CQE_NOTIFICATION)) {
		uring->result = cqe->res;
		uring->is_sending = false;
	} else {
		if ((uint32_t)cqe->res & ZC_NOTIFICATION_COPIED)
			publish(&counters->copied, ++uring->copied);
		publish(&counters->completions, ++uring->completions);
	}
	/* The buffer is ours again with the last completion about it. */
	if (uring->pool.capacity && !(cqe->flags & ZC_CQE_MORE))
		pool_give(&uring->pool, (uint32_t)cqe->user_data);
}

ZC_INLINE int enter_and_handle(struct ring_run *uring, uint32_t submissions, uint32_t wait_ms)
{
	int done = ring_enter(&uring->ring, submissions, wait_ms);
	struct io_uring_cqe cqe;

	while (ring_next(&uring->ring, &cqe))
		handle(uring, &cqe);
	return done;
}

/* Send one message and wait until the kernel has taken it.  Returns 0 or -errno. */
ZC_INLINE int ring_send(struct ring_run *uring, uint8_t opcode, const void *bytes,
			size_t length, uint32_t number)
{
	uint32_t submissions = 1;

	before_call(&uring->run);
	ring_queue(&uring->ring, opcode, uring->run.job->socket_fd, bytes, length, number);
	uring->is_sending = true;
	while (uring->is_sending) {
		int done = enter_and_handle(uring, submissions, 0);

		if (done < 0)
			return done;
		submissions -= (uint32_t)done;
	}
	if (uring->result > 0 || uring->result == -EINTR)
		return 0;
	return uring->result ? uring->result : -EIO;
}

int zc_send_io_uring_send(const struct zc_send_job *job)
{
	uint64_t messages = job->memory_bytes / job->message_bytes;
	struct ring_run uring = { .result = 0 };
	struct send_run *run = &uring.run;
	int err = ring_open(&uring.ring, ZC_SUBMISSIONS * 2);

	if (err)
		return err;
	send_begin(run, job);
	while (!err && send_goes_on(run)) {
		size_t length = pool_length(run);
		uint8_t *bytes = pool_message(run, (uint32_t)run->position, length);

		err = ring_send(&uring, IORING_OP_SEND, bytes, length, 0);
		if (err || uring.result < 0)
			continue;
		count_call(run, length, (size_t)uring.result);
		if (++run->position == messages) {
			run->position = 0;
			publish(&job->counters->passes, ++run->passes);
		}
	}
	ring_close(&uring.ring);
	return send_end(run, err);
}

static int drain(struct ring_run *uring)
{
	uint64_t end_ns = now_ns() + ZC_DRAIN_NS;

	while (uring->pool.free < uring->pool.capacity) {
		int err = enter_and_handle(uring, 0, ZC_POOL_WAIT_MS);

		if (err < 0)
			return err;
		if (now_ns() > end_ns)
			return -ETIME;
	}
	return 0;
}

ZC_INLINE int send_from_pool(struct ring_run *uring)
{
	struct send_run *run = &uring->run;
	uint32_t number = pool_take(&uring->pool);
	size_t length = pool_length(run);
	uint8_t *bytes = pool_message(run, number, length);
	int err = ring_send(uring, ZC_OP_SEND_ZC, bytes, length, number);

	if (!err && uring->result > 0)
		count_pool_call(run, &uring->pool, length, (size_t)uring->result);
	return err;
}

int zc_send_io_uring_send_zc(const struct zc_send_job *job)
{
	struct ring_run uring = { .pool = pool_begin(job) };
	uint32_t completions = ZC_SUBMISSIONS * 2;
	int drained;
	int err;

	/* Room for a notification of every buffer beside the send itself. */
	while (completions < 2 * uring.pool.capacity && completions < ZC_COMPLETIONS_LIMIT)
		completions *= 2;
	err = ring_open(&uring.ring, completions);
	if (err)
		return err;
	send_begin(&uring.run, job);
	while (!err && send_goes_on(&uring.run)) {
		if (uring.pool.free) {
			err = send_from_pool(&uring);
		} else {
			int done = enter_and_handle(&uring, 0, ZC_POOL_WAIT_MS);

			err = done < 0 ? done : 0;
		}
	}
	drained = uring.is_sending ? 0 : drain(&uring);
	ring_close(&uring.ring);
	err = send_end(&uring.run, err);
	return err ? err : drained;
}

ZC_INLINE ssize_t io_uring_recv_step(const struct zc_receive_job *job, void *state)
{
	struct ring *ring = state;
	struct io_uring_cqe cqe;
	uint32_t submissions = 1;

	ring_queue(ring, IORING_OP_RECV, job->socket_fd, job->memory, job->receive_bytes, 0);
	while (!ring_next(ring, &cqe)) {
		int done = ring_enter(ring, submissions, 0);

		if (done < 0) {
			errno = -done;
			return -1;
		}
		submissions -= (uint32_t)done;
	}
	if (cqe.res >= 0)
		return cqe.res;
	errno = -cqe.res;
	return -1;
}

int zc_receive_io_uring_recv(const struct zc_receive_job *job)
{
	struct ring ring;
	int err = ring_open(&ring, ZC_SUBMISSIONS * 2);

	if (err)
		return err;
	err = run_receiver(job, io_uring_recv_step, &ring);
	ring_close(&ring);
	return err;
}

/* Returns 0 if rings can be made and the kernel knows the operation, or -errno. */
static int probe_operation(uint8_t operation)
{
	struct {
		struct io_uring_probe head;
		struct io_uring_probe_op ops[IORING_OP_RECV + 1];
	} probe;
	struct ring ring;
	int err = ring_open(&ring, ZC_SUBMISSIONS * 2);

	if (err)
		return err;
	memset(&probe, 0, sizeof(probe));
	if (syscall(__NR_io_uring_register, ring.fd, IORING_REGISTER_PROBE, &probe,
		    IORING_OP_RECV + 1) < 0)
		err = -errno;
	else if (!(probe.ops[operation].flags & IO_URING_OP_SUPPORTED))
		err = -EOPNOTSUPP;
	ring_close(&ring);
	return err;
}

int zc_probe_io_uring_send(void)
{
	return probe_operation(IORING_OP_SEND);
}

int zc_probe_io_uring_recv(void)
{
	return probe_operation(IORING_OP_RECV);
}

int zc_probe_io_uring_send_zc(int not_a_socket_fd)
{
	struct zc_counters counters = { .calls = 0 };
	struct zc_send_job job = { .socket_fd = not_a_socket_fd, .counters = &counters };
	struct ring_run uring = { .run = { .job = &job } };
	uint8_t byte = 0;
	int err = ring_open(&uring.ring, ZC_SUBMISSIONS * 2);

	if (err)
		return err;
	err = ring_send(&uring, ZC_OP_SEND_ZC, &byte, 1, 0);
	ring_close(&uring.ring);
	return err;
}
