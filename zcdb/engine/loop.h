/* What all hot loops share: the clock, the counters, the pace, the walk through
 * the working set.  Inline, so that each API's loop is compiled as one piece. */
#ifndef ZC_LOOP_H
#define ZC_LOOP_H

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

#include "hotloops_api.h"

#define ZC_INLINE static inline __attribute__((always_inline))

/* The deadline is a bound of last resort, not the clock of a window: looking
 * at it once per MiB costs nothing that can be measured, once per call costs
 * 15 % of a 256 byte send. */
#define ZC_CLOCK_CHECK_BYTES (1024 * 1024)
#define ZC_CLOCK_CHECK_CALLS 4096

ZC_INLINE uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A store that another process may read at any time: never torn, never merged. */
ZC_INLINE void publish(uint64_t *counter, uint64_t value)
{
	__atomic_store_n(counter, value, __ATOMIC_RELAXED);
}

ZC_INLINE uint64_t peek(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

/* Decides whether a loop goes on: the stop word at every call, the clock rarely. */
struct watch {
	const uint64_t *stop;
	uint64_t deadline_ns;
	uint32_t check_calls;
	uint32_t calls_left;
};

ZC_INLINE struct watch watch_begin(const uint64_t *stop, uint64_t deadline_ns,
				   uint64_t call_bytes)
{
	uint64_t calls = ZC_CLOCK_CHECK_BYTES / call_bytes;
	struct watch watch = { .stop = stop, .deadline_ns = deadline_ns, .calls_left = 1 };

	if (calls > ZC_CLOCK_CHECK_CALLS)
		calls = ZC_CLOCK_CHECK_CALLS;
	watch.check_calls = calls ? (uint32_t)calls : 1;
	return watch;
}

ZC_INLINE bool is_stopped(const struct watch *watch)
{
	return peek(watch->stop) != 0;
}

ZC_INLINE bool goes_on(struct watch *watch)
{
	if (is_stopped(watch))
		return false;
	if (--watch->calls_left)
		return true;
	watch->calls_left = watch->check_calls;
	return now_ns() < watch->deadline_ns;
}

/* How far behind its schedule a paced sender catches up; what is older is forgotten. */
#define ZC_PACE_DEBT_NS 100000000u
/* How long it sleeps at most before it looks at the stop word again. */
#define ZC_PACE_SLEEP_NS 100000000u

/* One sender's way through its working set. */
struct send_run {
	const struct zc_send_job *job;
	struct watch watch;
	uint64_t pace_start_ns;		/* when the first byte was due */
	uint64_t datagrams;
	uint64_t payload_bytes;
	uint64_t calls;
	uint64_t short_calls;
	uint64_t passes;
	uint64_t left_bytes;		/* of the total */
	const struct zc_extent *extent;	/* where the next message comes from */
	uint64_t position;		/* in that extent */
};

ZC_INLINE void send_begin(struct send_run *run, const struct zc_send_job *job)
{
	*run = (struct send_run) {
		.job = job,
		.watch = watch_begin(job->stop, job->deadline_ns, job->message_bytes),
		.left_bytes = job->total_bytes ? job->total_bytes : UINT64_MAX,
		.extent = job->extents,
		.pace_start_ns = now_ns(),
	};
	publish(&job->counters->state, ZC_STATE_RUNNING);
}

ZC_INLINE int send_end(struct send_run *run, int err)
{
	publish(&run->job->counters->state, ZC_STATE_ENDED);
	return is_stopped(&run->watch) ? 0 : err;
}

ZC_INLINE bool send_goes_on(struct send_run *run)
{
	return run->left_bytes && goes_on(&run->watch);
}

/* Sleep until the next byte is due. */
static __attribute__((noinline, unused)) void pace(struct send_run *run)
{
	uint64_t due_ns = run->pace_start_ns
			  + (uint64_t)((double)run->payload_bytes * run->job->ns_per_byte);

	while (!is_stopped(&run->watch)) {
		uint64_t at_ns = now_ns();
		uint64_t until_ns = due_ns < at_ns + ZC_PACE_SLEEP_NS ? due_ns
								      : at_ns + ZC_PACE_SLEEP_NS;
		struct timespec until = { .tv_sec = (time_t)(until_ns / 1000000000u),
					  .tv_nsec = (long)(until_ns % 1000000000u) };

		if (at_ns >= due_ns) {
			if (at_ns - due_ns > ZC_PACE_DEBT_NS)
				run->pace_start_ns += at_ns - due_ns - ZC_PACE_DEBT_NS;
			return;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	}
}

/* What a sender does before each call besides sending: keep a rate, burn a known load. */
ZC_INLINE void before_call(struct send_run *run)
{
	if (run->job->ns_per_byte > 0)
		pace(run);
	if (run->job->work_turns)
		zc_burn(run->job->work_turns);
}

/* Write each datagram's number, in network order, into its first bytes. */
ZC_INLINE void number_datagrams(const struct send_run *run, uint8_t *bytes, size_t length)
{
	uint64_t number = run->datagrams;
	uint64_t size = run->job->datagram_bytes;

	if (size < ZC_DATAGRAM_NUMBER_BYTES)
		return;
	for (uint64_t at = 0; at < length; at += size) {
		uint64_t swapped = htobe64(number++);

		/* The last one of a total may be shorter. */
		if (length - at >= sizeof(swapped))
			memcpy(bytes + at, &swapped, sizeof(swapped));
	}
}

ZC_INLINE void count_datagrams(struct send_run *run, size_t taken)
{
	uint64_t size = run->job->datagram_bytes;

	run->datagrams += (taken + size - 1) / size;
	publish(&run->job->counters->datagrams, run->datagrams);
}

ZC_INLINE void count_call(struct send_run *run, size_t asked, size_t taken)
{
	struct zc_counters *counters = run->job->counters;

	run->payload_bytes += taken;
	run->left_bytes -= taken;
	publish(&counters->payload_bytes, run->payload_bytes);
	publish(&counters->calls, ++run->calls);
	if (taken < asked)
		publish(&counters->short_calls, ++run->short_calls);
}

#endif
