/* What all receivers share: the loop around a step, and the check of the pattern. */
#ifndef ZC_RECEIVE_H
#define ZC_RECEIVE_H

#include "loop.h"

/* Compare `count` bytes of the job's memory with the pattern at `stream_offset`. */
void check_pattern(const struct zc_receive_job *job, uint64_t stream_offset, size_t count);

/* A step returns the bytes taken out of the socket, 0 at its end, or -1 with
 * errno; `state` is whatever it keeps between two calls. */
typedef ssize_t receive_step(const struct zc_receive_job *job, void *state);

ZC_INLINE int run_receiver(const struct zc_receive_job *job, receive_step *step, void *state)
{
	struct watch watch = watch_begin(job->stop, job->deadline_ns, job->receive_bytes);
	struct zc_counters *counters = job->counters;
	uint64_t payload_bytes = 0;
	uint64_t calls = 0;
	int err = 0;

	publish(&counters->state, ZC_STATE_RUNNING);
	while (goes_on(&watch)) {
		ssize_t got = step(job, state);

		if (got > 0) {
			if (job->checks_pattern)
				check_pattern(job, payload_bytes, (size_t)got);
			payload_bytes += (uint64_t)got;
			publish(&counters->payload_bytes, payload_bytes);
			publish(&counters->calls, ++calls);
		} else if (got == 0) {
			break;
		} else if (errno != EINTR && errno != EAGAIN) {
			err = -errno;
			break;
		}
	}
	publish(&counters->state, ZC_STATE_ENDED);
	return is_stopped(&watch) ? 0 : err;
}

#endif
