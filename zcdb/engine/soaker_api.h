/* The soaker: declarations only.  cffi reads this very file, so it has no
 * preprocessor lines; whoever includes it includes <stddef.h> and <stdint.h> first. */

/* What one soaker has done and seen since it started. */
struct zc_soak_counts {
	uint64_t units;			/* units of work done */
	uint64_t last_ticks;		/* cycle counter when these counts were published */
	uint64_t task_gap_ticks;	/* a task had the CPU */
	uint64_t interrupt_gap_ticks;	/* no task switch: interrupt, softirq, VM exit */
	uint64_t steal_gap_ticks;	/* no task switch and too long for an interrupt */
	uint64_t task_gaps;
	uint64_t interrupt_gaps;
	uint64_t steal_gaps;
};

/* One soaker's place in shared memory: 256 bytes, two cache lines apart from the next. */
struct zc_soak_cell {
	uint64_t version;		/* counts[version & 1] is the published copy */
	uint64_t padding[7];
	struct zc_soak_counts counts[2];
	uint64_t more_padding[8];
};

/* Published counts and the cycle counter at the moment they were read. */
struct zc_soak_reading {
	uint64_t now_ticks;
	struct zc_soak_counts counts;
};

/* How a soaker works; the same for all CPUs. */
struct zc_soak_options {
	uint64_t footprint_bytes;	/* memory walked through; 0: none is touched */
	uint32_t reads_per_write;	/* lines read for each line written */
	uint32_t spin_iterations;	/* empty iterations in each unit */
	uint64_t gap_ticks;		/* a longer step of the cycle counter is a gap */
	uint64_t steal_ticks;		/* a longer gap without a task switch is steal */
};

/* Returns 1 where this processor's cycle counter can be read, else 0. */
int zc_soak_is_supported(void);

/* Returns the cycle counter: TSC on x86, the virtual counter on aarch64, else 0. */
uint64_t zc_soak_ticks(void);

/* Returns the counter's frequency as the processor states it, or 0 if it does not. */
uint64_t zc_soak_stated_hz(void);

/* Has the kernel kill this process when the thread that forked it ends.
 * Returns 0 or -errno. */
int zc_soak_die_with_parent(void);

/* Works for ever on the CPU it runs on; only a signal ends it.
 *
 * `buf` holds footprint_bytes, aligned to a cache line and touched before.
 * `cell` is in shared memory and starts as zeros.  Returns -ENOSYS where the
 * cycle counter cannot be read, and not at all elsewhere. */
int zc_soak_run(struct zc_soak_cell *cell, void *buf, const struct zc_soak_options *options);

/* Copies the published counts of `cells` consecutive soakers to `out`, each
 * with its own cycle counter reading.
 *
 * Returns 0, or 1 + the index of a cell that changed under each of the tries. */
int zc_soak_read(const struct zc_soak_cell *cell, uint32_t cells, struct zc_soak_reading *out);
