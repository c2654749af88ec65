/* The pool of message buffers that zero-copy senders take from: a buffer comes
 * back only after the kernel has said that it is done with it. */
#ifndef ZC_POOL_H
#define ZC_POOL_H

#include "loop.h"

/* How long a full pool waits before it looks at the stop word again. */
#define ZC_POOL_WAIT_MS 100
/* How long the end of a run waits for the notifications that are still out.
 * What then is missing is an error also of a loop that was told to stop. */
#define ZC_DRAIN_NS 2000000000u

struct pool {
	uint32_t *numbers;	/* free buffers; a queue that starts at `head` */
	uint32_t capacity;
	uint32_t free;
	uint32_t head;
	bool walks;
};

ZC_INLINE struct pool pool_begin(const struct zc_send_job *job)
{
	struct pool pool = {
		.numbers = job->pool,
		.capacity = (uint32_t)(job->memory_bytes / job->message_bytes),
		.walks = job->pool_walks,
	};

	for (pool.free = 0; pool.free < pool.capacity; pool.free++)
		pool.numbers[pool.free] = pool.free;
	return pool;
}

/* The newest free buffer keeps a hot source as small, and so as hot, as the
 * path allows; the oldest one walks through the whole working set. */
ZC_INLINE uint32_t pool_take(struct pool *pool)
{
	uint32_t number;

	pool->free--;
	if (!pool->walks)
		return pool->numbers[pool->free];
	number = pool->numbers[pool->head];
	if (++pool->head == pool->capacity)
		pool->head = 0;
	return number;
}

ZC_INLINE void pool_give(struct pool *pool, uint32_t number)
{
	uint64_t tail = (uint64_t)pool->head + pool->free++;

	pool->numbers[tail < pool->capacity ? tail : tail - pool->capacity] = number;
}

ZC_INLINE uint8_t *pool_message(struct send_run *run, uint32_t number, size_t length)
{
	uint8_t *bytes = run->job->memory + (uint64_t)number * run->job->message_bytes;

	if (run->job->fills_pattern)
		zc_pattern_fill(bytes, length, run->payload_bytes);
	return bytes;
}

/* A pool's message starts afresh after a short call: the rest of the buffer
 * belongs to the kernel. */
ZC_INLINE size_t pool_length(const struct send_run *run)
{
	uint64_t length = run->job->message_bytes;

	return length < run->left_bytes ? length : run->left_bytes;
}

/* One pass is as many calls as the working set has messages. */
ZC_INLINE void count_pool_call(struct send_run *run, const struct pool *pool, size_t asked,
			       size_t taken)
{
	count_call(run, asked, taken);
	run->position++;
	if (run->position == (pool->walks ? pool->capacity : 1)) {
		run->position = 0;
		publish(&run->job->counters->passes, ++run->passes);
	}
}

#endif
