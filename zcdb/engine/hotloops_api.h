/* The hot loops: what Python may call.
 *
 * Declarations only, and no include and no guard, because cffi reads this very
 * file; whoever includes it includes <stdint.h> first.
 *
 * A loop runs until the `stop` word is not 0, the deadline has passed, its
 * total is reached or a call fails.  It returns 0, or -errno of the call that
 * failed; a call that fails after `stop` was set is no failure, because the
 * parent ends a blocked call by shutting the socket down.  -ETIME says that
 * zero-copy notifications were still missing 2 s after the last send.  The
 * counters are valid either way.
 */

#define ZC_COUNTERS_BYTES 256
#define ZC_FRAGMENTS_LIMIT 1024
#define ZC_STATE_WAITING 0
#define ZC_STATE_RUNNING 1
#define ZC_STATE_ENDED 2

/* Buckets of a latency histogram: single nanoseconds up to 128, then 128 to
 * each doubling, so none is wider than 1/128 of its value; the last one also
 * holds whatever took longer than two minutes. */
#define ZC_LATENCY_BUCKETS 3968

/* A datagram carries its number in its first bytes, if it has that many. */
#define ZC_DATAGRAM_NUMBER_BYTES 8

/* What one stream has done so far; one per stream in shared memory, in cache
 * lines of its own and an even number of them, so that no other stream's stores
 * and no prefetched neighbour disturb it.  Written by the loop with plain
 * stores, read live by the parent. */
struct zc_counters {
	uint64_t payload_bytes;		/* taken by the kernel, or handed out by it */
	uint64_t calls;			/* that moved at least one byte */
	uint64_t short_calls;		/* senders: that took less than they were given */
	uint64_t completions;		/* zero-copy notifications, each send once */
	uint64_t copied;		/* those that say the kernel copied after all */
	uint64_t enobufs;		/* sends refused for want of notification memory */
	uint64_t passes;		/* completed walks through the working set */
	uint64_t state;			/* ZC_STATE_... */
	uint64_t mismatch_bytes;	/* verifying receiver: bytes that differ */
	uint64_t first_bad_offset;	/* stream offset of the first of them */
	uint64_t transactions;		/* exchanges: answered requests */
	uint64_t latency_sum_ns;	/* of all of them */
	double latency_squares_ns2;	/* sum of the squares */
	uint64_t refused;		/* crr: connections without the token of the run */
	uint64_t datagrams;		/* sent, or received */
	uint64_t lost;			/* numbers that a receiver of datagrams never saw */
	uint64_t reordered;		/* datagrams that came after one with a higher number */
	uint64_t mapped_bytes;		/* zerocopy_receive: of the payload, mapped and not copied */
	uint64_t dropped_pages;		/* cold files: pages that left the page cache after a pass */
	uint64_t kept_pages;		/* and those that did not */
	uint64_t unused[12];
};

/* A piece of the working set: `bytes` of a file from `offset` on, or of memory (fd is -1). */
struct zc_extent {
	uint64_t offset;
	uint64_t bytes;
	int32_t fd;
	uint32_t unused;
};

struct zc_send_job {
	int32_t socket_fd;		/* connected, blocking */
	int32_t pipe_read_fd;		/* splice only */
	int32_t pipe_write_fd;
	uint32_t fragments;		/* sendmsg only: pieces of a message */
	uint64_t message_bytes;		/* of a call; with UDP_SEGMENT several datagrams */
	uint64_t datagram_bytes;	/* number each datagram of so many bytes; 0: a stream */
	uint64_t total_bytes;		/* end after so many; 0: no limit */
	uint64_t deadline_ns;		/* CLOCK_MONOTONIC, bound of last resort */
	uint64_t work_turns;		/* turns of zc_burn before each call */
	double ns_per_byte;		/* sleep so that a byte takes so long; 0: never */
	uint64_t fills_pattern;		/* 1: write the pattern into each message */
	uint64_t drops_cache;		/* 1: drop the files from the page cache after a pass */
	uint8_t *memory;		/* the region, the read buffer or the pool */
	uint64_t memory_bytes;
	const struct zc_extent *extents;/* the working set, in order */
	uint32_t extents_count;
	uint32_t pool_walks;		/* 1: oldest free buffer first; 0: newest */
	uint32_t *pool;			/* room for one number per pool buffer */
	uint32_t *sends;		/* msg_zerocopy: buffer of each send in flight */
	uint32_t sends_count;		/* a power of two, at least twice the pool */
	uint32_t unused;
	const uint64_t *stop;
	struct zc_counters *counters;
};

struct zc_receive_job {
	int32_t socket_fd;		/* connected, blocking */
	int32_t pipe_read_fd;		/* splice_null only */
	int32_t pipe_write_fd;
	int32_t null_fd;		/* splice_null only: /dev/null, open for writing */
	uint64_t receive_bytes;
	uint64_t deadline_ns;
	uint64_t checks_pattern;	/* recv only: 1: compare every byte */
	uint64_t period_bytes;		/* the pattern starts again after so many; 0: never */
	uint8_t *memory;		/* receive_bytes of it */
	const uint64_t *stop;
	struct zc_counters *counters;
};

/* A socket option of an `int` value. */
struct zc_option {
	int32_t level;
	int32_t name;
	int32_t value;
};

/* One end of an exchange of requests and responses.  `memory` holds the larger
 * of the two, the token before it; what it says is the same again and again. */
struct zc_exchange_job {
	int32_t socket_fd;		/* connected; crr server: listening; crr client: -1 */
	uint32_t burst;			/* rr client: requests in flight beyond the first */
	uint64_t request_bytes;
	uint64_t response_bytes;
	uint64_t token_bytes;		/* crr: come before the request; 0: none */
	uint64_t deadline_ns;
	uint64_t work_turns;		/* client: turns of zc_burn before each request */
	uint8_t *memory;
	uint64_t *starts_ns;		/* rr client: room for burst + 1 */
	uint64_t *histogram;		/* client: ZC_LATENCY_BUCKETS of them */
	const uint8_t *token;		/* crr server: what it has to be */
	const uint8_t *address;		/* crr client: where to, a sockaddr */
	const uint8_t *source;		/* crr client: where from, a sockaddr, or NULL */
	uint32_t address_bytes;
	uint32_t source_bytes;
	const struct zc_option *options;/* crr client: of each new socket */
	uint32_t options_count;
	uint32_t unused;
	const uint64_t *stop;
	struct zc_counters *counters;
};

/* Senders.  Memory: the message is taken from `memory`. */
int zc_send_write(const struct zc_send_job *job);
int zc_send_send(const struct zc_send_job *job);
int zc_send_sendmsg(const struct zc_send_job *job);
int zc_send_io_uring_send(const struct zc_send_job *job);
/* Memory again, but `memory` is a pool of buffers of one message each, and a
 * buffer is used again only after the kernel has said that it is done with it. */
int zc_send_msg_zerocopy(const struct zc_send_job *job);
int zc_send_io_uring_send_zc(const struct zc_send_job *job);
/* Files: the message is taken from the extents' files. */
int zc_send_read_write(const struct zc_send_job *job);
int zc_send_sendfile(const struct zc_send_job *job);
int zc_send_splice(const struct zc_send_job *job);

/* Receivers.  They also end, with 0, when the sender has closed its side. */
int zc_receive_recv(const struct zc_receive_job *job);
int zc_receive_recv_trunc(const struct zc_receive_job *job);
int zc_receive_splice_null(const struct zc_receive_job *job);
int zc_receive_io_uring_recv(const struct zc_receive_job *job);
/* Maps whole pages of payload into memory of its own and copies the rest to `memory`. */
int zc_receive_zerocopy_receive(const struct zc_receive_job *job);
/* Datagrams; their sender ends with empty ones.  The socket has a receive timeout. */
int zc_receive_datagrams(const struct zc_receive_job *job);

/* Exchanges.  A server ends when its client has closed its side (rr), or when
 * it is told to (crr, whose listening socket has a timeout). */
int zc_client_rr(const struct zc_exchange_job *job);
int zc_server_rr(const struct zc_exchange_job *job);
int zc_client_crr(const struct zc_exchange_job *job);
int zc_server_crr(const struct zc_exchange_job *job);

/* Add up `count` streams' counters; `first_bad_offset` is the smallest one,
 * `state` the number of streams that are running. */
void zc_sum_counters(const struct zc_counters *counters, uint32_t count,
		     struct zc_counters *sum);
/* Add up `count` streams' histograms and write (bucket, count) of each bucket
 * that is not empty to `found`, which has room for all of them.  Returns how
 * many there are. */
uint32_t zc_sum_histograms(const uint64_t *histograms, uint32_t count, uint64_t *found);
/* The bucket of a latency. */
uint32_t zc_latency_bucket(uint64_t latency_ns);

/* Use up CPU time: a chain of multiplications that nothing can shorten. */
void zc_burn(uint64_t turns);

/* The pattern: a byte depends on its offset in the stream, in 64-bit words. */
void zc_pattern_fill(uint8_t *bytes, uint64_t count, uint64_t offset);
/* Returns how many bytes differ and sets `first_bad` to the offset of the first. */
uint64_t zc_pattern_mismatches(const uint8_t *bytes, uint64_t count, uint64_t offset,
			       uint64_t *first_bad);

/* Returns how many pages of `bytes` of a file from `offset` on are in the page
 * cache, or -errno. */
int64_t zc_cached_pages(int fd, uint64_t offset, uint64_t bytes);

/* Probes of io_uring.  The first two return 0 if rings can be made and the
 * kernel knows IORING_OP_SEND or IORING_OP_RECV, else -errno.  The third submits
 * a SEND_ZC with a usage report on `not_a_socket_fd` and returns what the kernel
 * says to it: -ENOTSOCK if it knows both, -EINVAL if it does not. */
int zc_probe_io_uring_send(void);
int zc_probe_io_uring_recv(void);
int zc_probe_io_uring_send_zc(int not_a_socket_fd);
/* Returns 0 if payload of this connected TCP socket can be mapped, or -errno. */
int zc_probe_zerocopy_receive(int socket_fd);
