/* The buckets of a latency histogram; see ZC_LATENCY_BUCKETS. */
#ifndef ZC_LATENCY_H
#define ZC_LATENCY_H

#include "loop.h"

#define ZC_LATENCY_STEPS 128u	/* buckets of a doubling */
#define ZC_LATENCY_STEPS_LOG2 7u

ZC_INLINE uint32_t latency_bucket(uint64_t latency_ns)
{
	uint32_t doublings;
	uint64_t bucket;

	if (latency_ns < ZC_LATENCY_STEPS)
		return (uint32_t)latency_ns;
	doublings = 63u - (uint32_t)__builtin_clzll(latency_ns) - ZC_LATENCY_STEPS_LOG2;
	bucket = doublings * ZC_LATENCY_STEPS + (latency_ns >> doublings);
	return bucket < ZC_LATENCY_BUCKETS ? (uint32_t)bucket : ZC_LATENCY_BUCKETS - 1;
}

#endif
