/* The timed loops of exchanges: requests and responses over one connection (rr),
 * or one connection for each of them (crr).
 *
 * A latency is taken from just before the request is handed over, in crr from
 * just before the connection is asked for, to the last byte of the response. */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "latency.h"

/* One end's way through its exchanges. */
struct exchange {
	const struct zc_exchange_job *job;
	struct zc_counters *counters;
	uint64_t now_ns;	/* the last look at the clock */
	uint64_t payload_bytes;	/* of requests: sent, or received */
	uint64_t calls;
	uint64_t transactions;
	uint64_t latency_sum_ns;
	double latency_squares_ns2;
};

static struct exchange exchange_begin(const struct zc_exchange_job *job)
{
	struct exchange run = { .job = job, .counters = job->counters, .now_ns = now_ns() };

	publish(&job->counters->state, ZC_STATE_RUNNING);
	return run;
}

static bool exchange_is_stopped(const struct exchange *run)
{
	return peek(run->job->stop) != 0;
}

ZC_INLINE bool exchange_goes_on(const struct exchange *run)
{
	return !exchange_is_stopped(run) && run->now_ns < run->job->deadline_ns;
}

static int exchange_end(const struct exchange *run, int err)
{
	publish(&run->counters->state, ZC_STATE_ENDED);
	return exchange_is_stopped(run) ? 0 : err;
}

ZC_INLINE void count_payload(struct exchange *run, size_t moved)
{
	publish(&run->counters->payload_bytes, run->payload_bytes += moved);
	publish(&run->counters->calls, ++run->calls);
}

ZC_INLINE void count_transaction(struct exchange *run, uint64_t start_ns)
{
	uint64_t latency_ns = run->now_ns - start_ns;
	uint64_t *bucket = run->job->histogram + latency_bucket(latency_ns);

	publish(bucket, *bucket + 1);
	publish(&run->counters->latency_sum_ns, run->latency_sum_ns += latency_ns);
	run->latency_squares_ns2 += (double)latency_ns * (double)latency_ns;
	__atomic_store(&run->counters->latency_squares_ns2, &run->latency_squares_ns2,
		       __ATOMIC_RELAXED);
	publish(&run->counters->transactions, ++run->transactions);
}

/* Receive exactly `bytes`.  Returns 1, 0 at the end of the stream, or -errno. */
ZC_INLINE int receive_all(int fd, uint8_t *memory, uint64_t bytes)
{
	while (bytes) {
		ssize_t got = recv(fd, memory, bytes, 0);

		if (got == 0)
			return 0;
		if (got > 0) {
			memory += got;
			bytes -= (uint64_t)got;
		} else if (errno != EINTR) {
			return -errno;
		}
	}
	return 1;
}

/* Send exactly `bytes`.  Returns 1 or -errno. */
ZC_INLINE int send_all(int fd, const uint8_t *memory, uint64_t bytes)
{
	while (bytes) {
		ssize_t taken = send(fd, memory, bytes, MSG_NOSIGNAL);

		if (taken >= 0) {
			memory += taken;
			bytes -= (uint64_t)taken;
		} else if (errno != EINTR) {
			return -errno;
		}
	}
	return 1;
}

/* -- one connection ------------------------------------------------------------------------- */

/* The requests of a client that are under way, oldest first. */
struct pipeline {
	uint64_t oldest;
	uint64_t in_flight;	/* whole requests without their whole response */
	uint64_t request_taken;	/* bytes of the request that is being sent */
	uint64_t response_got;	/* bytes of the response that is being received */
};

/* Send requests until as many are in flight as may be, or the socket takes no
 * more.  With responses still to come it must not block: the server may be
 * waiting for us to read.  Returns 0 or -errno. */
ZC_INLINE int send_requests(struct exchange *run, struct pipeline *pipeline)
{
	const struct zc_exchange_job *job = run->job;
	uint64_t places = (uint64_t)job->burst + 1;

	while (pipeline->in_flight < places) {
		uint64_t place = pipeline->oldest + pipeline->in_flight;
		ssize_t taken;

		if (!pipeline->request_taken) {
			if (job->work_turns)
				zc_burn(job->work_turns);
			/* Without work in between, a lone request follows its last response at once. */
			if (job->work_turns || pipeline->in_flight)
				run->now_ns = now_ns();
			job->starts_ns[place < places ? place : place - places] = run->now_ns;
		}
		taken = send(job->socket_fd, job->memory + pipeline->request_taken,
			     job->request_bytes - pipeline->request_taken,
			     MSG_NOSIGNAL | (pipeline->in_flight ? MSG_DONTWAIT : 0));
		if (taken < 0) {
			if (errno == EINTR)
				continue;
			return errno == EAGAIN && pipeline->in_flight ? 0 : -errno;
		}
		count_payload(run, (size_t)taken);
		pipeline->request_taken += (uint64_t)taken;
		if (pipeline->request_taken == job->request_bytes) {
			pipeline->request_taken = 0;
			pipeline->in_flight++;
		}
	}
	return 0;
}

/* Receive some of the oldest request's response.  Returns 1, 0 at the end of the stream, or
 * -errno. */
ZC_INLINE int take_response(struct exchange *run, struct pipeline *pipeline)
{
	const struct zc_exchange_job *job = run->job;
	ssize_t got = recv(job->socket_fd, job->memory,
			   job->response_bytes - pipeline->response_got, 0);

	if (got <= 0)
		return got == 0 ? 0 : errno == EINTR ? 1 : -errno;
	pipeline->response_got += (uint64_t)got;
	if (pipeline->response_got < job->response_bytes)
		return 1;
	run->now_ns = now_ns();
	count_transaction(run, job->starts_ns[pipeline->oldest]);
	pipeline->response_got = 0;
	pipeline->in_flight--;
	if (++pipeline->oldest > job->burst)
		pipeline->oldest = 0;
	return 1;
}

int zc_client_rr(const struct zc_exchange_job *job)
{
	struct exchange run = exchange_begin(job);
	struct pipeline pipeline = { .oldest = 0 };
	int got = 1;
	int err = 0;

	while (!err && got > 0 && exchange_goes_on(&run)) {
		err = send_requests(&run, &pipeline);
		if (!err)
			got = take_response(&run, &pipeline);
	}
	/* What is still in flight is waited for, so that the server ends in order. */
	while (!err && got > 0 && pipeline.in_flight)
		got = take_response(&run, &pipeline);
	if (!err)
		err = got < 0 ? got : got == 0 ? -ECONNRESET : 0;
	return exchange_end(&run, err);
}

int zc_server_rr(const struct zc_exchange_job *job)
{
	struct exchange run = exchange_begin(job);
	uint64_t until_clock = 1;
	int done = 1;

	while (done > 0 && exchange_goes_on(&run)) {
		if (--until_clock == 0) {
			until_clock = ZC_CLOCK_CHECK_CALLS;
			run.now_ns = now_ns();
		}
		done = receive_all(job->socket_fd, job->memory, job->request_bytes);
		if (done <= 0)
			break;
		count_payload(&run, job->request_bytes);
		done = send_all(job->socket_fd, job->memory, job->response_bytes);
		if (done > 0)
			publish(&run.counters->transactions, ++run.transactions);
	}
	return exchange_end(&run, done < 0 ? done : 0);
}

/* -- a connection for each ------------------------------------------------------------------ */

/* Returns a connected socket, or -errno. */
static int connect_anew(const struct zc_exchange_job *job)
{
	const struct sockaddr *address = (const struct sockaddr *)job->address;
	int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int err = 0;

	if (fd < 0)
		return -errno;
	for (uint32_t i = 0; !err && i < job->options_count; i++) {
		const struct zc_option *option = job->options + i;

		err = setsockopt(fd, option->level, option->name, &option->value,
				 sizeof(option->value));
	}
	if (!err && job->source)
		err = bind(fd, (const struct sockaddr *)job->source, job->source_bytes);
	if (!err)
		err = connect(fd, address, job->address_bytes);
	if (!err)
		return fd;
	err = -errno;
	close(fd);
	return err;
}

/* The server closes first, so that the client's port is free again at once.
 * Returns 1 or -errno. */
static int exchange_once(struct exchange *run)
{
	const struct zc_exchange_job *job = run->job;
	uint64_t start_ns;
	int done;
	int fd;

	if (job->work_turns)
		zc_burn(job->work_turns);
	start_ns = now_ns();
	fd = connect_anew(job);
	if (fd < 0)
		return fd;
	done = send_all(fd, job->memory, job->token_bytes + job->request_bytes);
	if (done > 0) {
		count_payload(run, job->request_bytes);
		done = receive_all(fd, job->memory + job->token_bytes, job->response_bytes);
	}
	if (done > 0) {
		run->now_ns = now_ns();
		count_transaction(run, start_ns);
		/* Nothing more should come but the end of the stream. */
		done = receive_all(fd, job->memory + job->token_bytes, 1);
		done = done < 0 ? done : 1;
	} else if (done == 0) {
		done = -ECONNRESET;
	}
	close(fd);
	return done;
}

int zc_client_crr(const struct zc_exchange_job *job)
{
	struct exchange run = exchange_begin(job);
	int done = 1;

	while (done > 0 && exchange_goes_on(&run))
		done = exchange_once(&run);
	return exchange_end(&run, done > 0 ? 0 : done);
}

/* Looks at every byte, so that the time taken tells nothing. */
static bool is_token(const struct zc_exchange_job *job)
{
	uint8_t difference = 0;

	for (uint64_t i = 0; i < job->token_bytes; i++)
		difference |= job->memory[i] ^ job->token[i];
	return !difference;
}

/* Serve one connection.  A client that breaks off, or says nothing until the
 * listening socket's timeout is over, spoils its own exchange, not the server. */
static void serve_once(struct exchange *run, int fd)
{
	const struct zc_exchange_job *job = run->job;

	if (job->token_bytes && receive_all(fd, job->memory, job->token_bytes) <= 0)
		return;
	if (!is_token(job)) {
		publish(&run->counters->refused, run->counters->refused + 1);
		return;
	}
	if (receive_all(fd, job->memory + job->token_bytes, job->request_bytes) <= 0)
		return;
	count_payload(run, job->request_bytes);
	if (send_all(fd, job->memory + job->token_bytes, job->response_bytes) > 0)
		publish(&run->counters->transactions, ++run->transactions);
}

int zc_server_crr(const struct zc_exchange_job *job)
{
	struct exchange run = exchange_begin(job);
	uint64_t until_clock = 1;
	int err = 0;

	while (!err && exchange_goes_on(&run)) {
		int fd = accept(job->socket_fd, NULL, NULL);

		if (fd < 0) {
			/* Its timeout ends a wait, so that the stop word is looked at. */
			run.now_ns = now_ns();
			if (errno != EINTR && errno != EAGAIN && errno != ECONNABORTED)
				err = -errno;
			continue;
		}
		if (--until_clock == 0) {
			until_clock = ZC_CLOCK_CHECK_CALLS;
			run.now_ns = now_ns();
		}
		serve_once(&run, fd);
		close(fd);
	}
	return exchange_end(&run, err);
}
