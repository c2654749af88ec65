/* The soaker: uses up all CPU time that nothing else wants, and notices what
 * it did not get.
 *
 * It works in units (touch a cache line, spin a little, about 40 ns) and reads
 * the cycle counter after every UNITS_PER_BATCH of them.  A step above
 * gap_ticks means that something else had the CPU.  The thread's own count of
 * context switches tells a task from an interrupt; what is longer than any
 * interrupt and left no switch is time the hypervisor took.
 *
 * Only the timed loop and what it needs is here; start, priority and pinning
 * are soak.py's work.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "soaker_api.h"

#define UNITS_PER_BATCH 16
#define CACHE_LINE_BYTES 64
#define READ_TRIES 64
#define RUSAGE_TRIES 16

#if defined(__x86_64__) || defined(__i386__)
#define HAS_TICKS 1
static inline uint64_t ticks(void)
{
	return __builtin_ia32_rdtsc();
}

static uint64_t stated_hz(void)
{
	return 0;
}
#elif defined(__aarch64__)
#define HAS_TICKS 1
static inline uint64_t ticks(void)
{
	uint64_t value;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
	return value;
}

static uint64_t stated_hz(void)
{
	uint64_t value;

	__asm__ volatile("mrs %0, cntfrq_el0" : "=r"(value));
	return value;
}
#else
#define HAS_TICKS 0
static inline uint64_t ticks(void)
{
	return 0;
}

static uint64_t stated_hz(void)
{
	return 0;
}
#endif

int zc_soak_is_supported(void)
{
	return HAS_TICKS;
}

uint64_t zc_soak_ticks(void)
{
	return ticks();
}

uint64_t zc_soak_stated_hz(void)
{
	return stated_hz();
}

int zc_soak_die_with_parent(void)
{
	return prctl(PR_SET_PDEATHSIG, SIGKILL) ? -errno : 0;
}

/* Where a soaker is in its memory and in its pattern of reads and writes. */
struct walk {
	volatile uint64_t *line;
	volatile uint64_t *first;
	volatile uint64_t *end;
	uint32_t reads_per_write;
	uint32_t reads_left;
	uint32_t spin_iterations;
};

static inline void touch_line(struct walk *walk)
{
	if (walk->reads_left) {
		walk->reads_left--;
		(void)*walk->line;
	} else {
		walk->reads_left = walk->reads_per_write;
		*walk->line = walk->reads_left;
	}
	walk->line += CACHE_LINE_BYTES / sizeof(*walk->line);
	if (walk->line >= walk->end)
		walk->line = walk->first;
}

static inline void work_batch(struct walk *walk)
{
	for (int unit = 0; unit < UNITS_PER_BATCH; unit++) {
		if (walk->first != walk->end)
			touch_line(walk);
		for (uint32_t i = 0; i < walk->spin_iterations; i++)
			__asm__ volatile("");
	}
}

static uint64_t switches(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return (uint64_t)usage.ru_nvcsw + (uint64_t)usage.ru_nivcsw;
}

/* What reading the switch counts costs: the least of some tries, so that an
 * interrupt in one of them does not count. */
static uint64_t switches_cost(void)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < RUSAGE_TRIES; i++) {
		uint64_t start = ticks(), cost;

		switches();
		cost = ticks() - start;
		if (cost < least)
			least = cost;
	}
	return least;
}

/* Publish through the copy that readers do not look at: a reader that has
 * preempted the soaker in the middle of this still finds the other copy whole,
 * which an ordinary sequence lock would not give it. */
static inline void publish(struct zc_soak_cell *cell, const struct zc_soak_counts *counts)
{
	uint64_t next = cell->version + 1;

	cell->counts[next & 1] = *counts;
	__atomic_store_n(&cell->version, next, __ATOMIC_RELEASE);
	/* The next call writes the copy that was current until now; it must not
	 * be seen to do so before the version above. */
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

static void count_gap(struct zc_soak_counts *counts, uint64_t gap, int was_switched,
		      uint64_t steal_ticks)
{
	if (was_switched) {
		counts->task_gap_ticks += gap;
		counts->task_gaps++;
	} else if (gap > steal_ticks) {
		counts->steal_gap_ticks += gap;
		counts->steal_gaps++;
	} else {
		counts->interrupt_gap_ticks += gap;
		counts->interrupt_gaps++;
	}
}

static void soak(struct zc_soak_cell *cell, struct walk *walk,
		 const struct zc_soak_options *options)
{
	struct zc_soak_counts counts = { .last_ticks = ticks() };
	uint64_t cost = switches_cost();
	uint64_t switches_before = switches();
	uint64_t extra = cost;	/* what the batch spends on sorting the gap before it */
	uint64_t usual = 0;	/* length of the last batch without a gap */

	counts.last_ticks = ticks();
	for (;;) {
		uint64_t now, step;

		work_batch(walk);
		now = ticks();
		step = now - counts.last_ticks;
		counts.units += UNITS_PER_BATCH;
		counts.last_ticks = now;
		if (step <= options->gap_ticks + extra) {
			usual = extra ? usual : step;
			extra = 0;
		} else {
			uint64_t switches_now = switches();

			count_gap(&counts, step - usual - extra, switches_now != switches_before,
				  options->steal_ticks);
			switches_before = switches_now;
			extra = cost;
		}
		publish(cell, &counts);
	}
}

int zc_soak_run(struct zc_soak_cell *cell, void *buf, const struct zc_soak_options *options)
{
	struct walk walk = {
		.line = buf,
		.first = buf,
		.end = (uint64_t *)buf + options->footprint_bytes / sizeof(uint64_t),
		.reads_per_write = options->reads_per_write,
		.reads_left = options->reads_per_write,
		.spin_iterations = options->spin_iterations,
	};

	if (!HAS_TICKS)
		return -ENOSYS;
	soak(cell, &walk, options);
	return 0;
}

static int read_cell(const struct zc_soak_cell *cell, struct zc_soak_reading *out)
{
	for (int i = 0; i < READ_TRIES; i++) {
		uint64_t version = __atomic_load_n(&cell->version, __ATOMIC_ACQUIRE);

		out->counts = cell->counts[version & 1];
		out->now_ticks = ticks();
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (__atomic_load_n(&cell->version, __ATOMIC_RELAXED) == version)
			return 0;
	}
	return -EAGAIN;
}

int zc_soak_read(const struct zc_soak_cell *cell, uint32_t cells, struct zc_soak_reading *out)
{
	for (uint32_t i = 0; i < cells; i++)
		if (read_cell(&cell[i], &out[i]))
			return (int)i + 1;
	return 0;
}
