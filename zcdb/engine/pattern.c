/* The verification pattern: a byte depends on its place in the stream alone. */
#include <endian.h>
#include <string.h>

#include "receive.h"

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

void check_pattern(const struct zc_receive_job *job, uint64_t stream_offset, size_t count)
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
