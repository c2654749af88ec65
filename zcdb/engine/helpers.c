/* What is not a loop: sums over streams, the buckets of latencies, the page cache, burning CPU. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "loop.h"
#include "latency.h"

_Static_assert(sizeof(struct zc_counters) == ZC_COUNTERS_BYTES,
	       "a stream's counters must fill their cache lines");

void zc_sum_counters(const struct zc_counters *counters, uint32_t count,
		     struct zc_counters *sum)
{
	memset(sum, 0, sizeof(*sum));
	for (uint32_t i = 0; i < count; i++) {
		const struct zc_counters *one = counters + i;
		uint64_t bad_offset = peek(&one->first_bad_offset);
		double squares;

		/* Completions before calls: a reader never sees more of them than sends. */
		sum->completions += peek(&one->completions);
		sum->copied += peek(&one->copied);
		sum->payload_bytes += peek(&one->payload_bytes);
		sum->calls += peek(&one->calls);
		sum->short_calls += peek(&one->short_calls);
		sum->enobufs += peek(&one->enobufs);
		sum->passes += peek(&one->passes);
		sum->transactions += peek(&one->transactions);
		sum->latency_sum_ns += peek(&one->latency_sum_ns);
		__atomic_load(&one->latency_squares_ns2, &squares, __ATOMIC_RELAXED);
		sum->latency_squares_ns2 += squares;
		sum->refused += peek(&one->refused);
		sum->datagrams += peek(&one->datagrams);
		sum->lost += peek(&one->lost);
		sum->reordered += peek(&one->reordered);
		sum->mapped_bytes += peek(&one->mapped_bytes);
		sum->dropped_pages += peek(&one->dropped_pages);
		sum->kept_pages += peek(&one->kept_pages);
		if (peek(&one->mismatch_bytes)) {
			if (!sum->mismatch_bytes || bad_offset < sum->first_bad_offset)
				sum->first_bad_offset = bad_offset;
			sum->mismatch_bytes += peek(&one->mismatch_bytes);
		}
		sum->state += peek(&one->state) == ZC_STATE_RUNNING;
	}
}

uint32_t zc_sum_histograms(const uint64_t *histograms, uint32_t count, uint64_t *found)
{
	uint32_t buckets = 0;

	for (uint32_t bucket = 0; bucket < ZC_LATENCY_BUCKETS; bucket++) {
		const uint64_t *one = histograms + bucket;
		uint64_t sum = 0;

		for (uint32_t i = 0; i < count; i++, one += ZC_LATENCY_BUCKETS)
			sum += peek(one);
		if (sum) {
			found[2 * buckets] = bucket;
			found[2 * buckets + 1] = sum;
			buckets++;
		}
	}
	return buckets;
}

uint32_t zc_latency_bucket(uint64_t latency_ns)
{
	return latency_bucket(latency_ns);
}

void zc_burn(uint64_t turns)
{
	uint64_t word = turns;

	while (turns--) {
		word = word * 0x5851f42d4c957f2du + 1;
		/* The compiler must neither leave the chain out nor shorten it. */
		__asm__ volatile("" : "+r"(word));
	}
}

int64_t zc_cached_pages(int fd, uint64_t offset, uint64_t bytes)
{
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t first = offset / page_bytes;
	uint64_t pages = (offset + bytes + page_bytes - 1) / page_bytes - first;
	int64_t cached = 0;
	unsigned char in_core[4096];
	uint8_t *map;

	if (bytes == 0)
		return 0;
	map = mmap(NULL, pages * page_bytes, PROT_READ, MAP_SHARED, fd,
		   (off_t)(first * page_bytes));
	if (map == MAP_FAILED)
		return -errno;
	for (uint64_t page = 0; page < pages; page += sizeof(in_core)) {
		uint64_t some = pages - page < sizeof(in_core) ? pages - page : sizeof(in_core);

		if (mincore(map + page * page_bytes, some * page_bytes, in_core)) {
			cached = -errno;
			break;
		}
		for (uint64_t i = 0; i < some; i++)
			cached += in_core[i] & 1;
	}
	munmap(map, pages * page_bytes);
	return cached;
}
