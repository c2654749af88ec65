/* The verification pattern, and the small helpers that are not loops. */
#include <endian.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "loop.h"

_Static_assert(sizeof(struct zc_counters) == ZC_COUNTERS_BYTES,
	       "a stream's counters must fill their cache lines");

/* The finaliser of splitmix64: neighbouring words share no bytes, so that data
 * shifted by any distance, or from another message, differs almost everywhere. */
static uint64_t pattern_word(uint64_t index)
{
	uint64_t word = index + 0x9e3779b97f4a7c15u;

	word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9u;
	word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
	return word ^ (word >> 31);
}

static uint8_t pattern_byte(uint64_t offset)
{
	return (uint8_t)(pattern_word(offset / 8) >> (offset % 8 * 8));
}

void zc_pattern_fill(uint8_t *bytes, uint64_t count, uint64_t offset)
{
	uint64_t at = 0;

	while (at < count) {
		if ((offset + at) % 8 == 0 && count - at >= 8) {
			uint64_t word = htole64(pattern_word((offset + at) / 8));

			memcpy(bytes + at, &word, 8);
			at += 8;
		} else {
			bytes[at] = pattern_byte(offset + at);
			at++;
		}
	}
}

uint64_t zc_pattern_mismatches(const uint8_t *bytes, uint64_t count, uint64_t offset,
			       uint64_t *first_bad)
{
	uint64_t mismatches = 0;
	uint64_t at = 0;

	while (at < count) {
		if ((offset + at) % 8 == 0 && count - at >= 8) {
			uint64_t word = htole64(pattern_word((offset + at) / 8));

			if (memcmp(bytes + at, &word, 8) == 0) {
				at += 8;
				continue;
			}
		}
		if (bytes[at] != pattern_byte(offset + at) && mismatches++ == 0)
			*first_bad = offset + at;
		at++;
	}
	return mismatches;
}

void zc_sum_counters(const struct zc_counters *counters, uint32_t count,
		     struct zc_counters *sum)
{
	memset(sum, 0, sizeof(*sum));
	for (uint32_t i = 0; i < count; i++) {
		const struct zc_counters *one = counters + i;
		uint64_t bad_offset = peek(&one->first_bad_offset);

		/* Completions before calls: a reader never sees more of them than sends. */
		sum->completions += peek(&one->completions);
		sum->copied += peek(&one->copied);
		sum->payload_bytes += peek(&one->payload_bytes);
		sum->calls += peek(&one->calls);
		sum->short_calls += peek(&one->short_calls);
		sum->enobufs += peek(&one->enobufs);
		sum->passes += peek(&one->passes);
		if (peek(&one->mismatch_bytes)) {
			if (!sum->mismatch_bytes || bad_offset < sum->first_bad_offset)
				sum->first_bad_offset = bad_offset;
			sum->mismatch_bytes += peek(&one->mismatch_bytes);
		}
		sum->state += peek(&one->state) == ZC_STATE_RUNNING;
	}
}

int64_t zc_cached_pages(int fd, uint64_t bytes)
{
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t pages = (bytes + page_bytes - 1) / page_bytes;
	int64_t cached = 0;
	unsigned char in_core[4096];
	uint8_t *map;

	if (bytes == 0)
		return 0;
	map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
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
	munmap(map, bytes);
	return cached;
}
