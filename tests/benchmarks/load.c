/* load: a closed loop of chat requests over loopback, whole and streamed, with clients that hang up where asked.
 *
 *   load --port 9100 --connections 16 --seconds 5 [--stream]
 *   load --port 8080 --connections 48 --requests 2000 --mix 40,40,10,10 --header 'authorization: Bearer sk-x'
 *
 * --mix W,S,E,M   percentages of whole answers, streams, clients that leave before the first byte, and that leave in the
 *                 middle of a stream; --stream is 0,100,0,0, and 100,0,0,0 is the default
 * --early-ms N    those who leave early do so 0 to N ms after sending, spread evenly
 * --mock TEXT     the "mock" field of every request (see upstream.c); --chunks N are then expected of each stream
 * --prompt BYTES  of the user's message, which starts with one of --prompts N different numbers
 * --ramp-ms N     the connections start one after the other over so long, so that streams do not keep in step
 * --requests N    instead of --seconds; --timeout S; --path /v1/chat/completions; --model NAME; --header 'k: v'
 *
 * Each connection has one request under way and is used again. Prints one JSON object: counts by kind, errors by
 * reason, and percentiles in microseconds of the whole answer, of the first chunk, and of what each chunk was under way.
 *
 * cc -O2 -Wall -Wextra -Werror -o load load.c
 */
#include "loopback.h"
#include "answer.h"

enum kind { WHOLE, STREAM, EARLY, MIDWAY, KINDS };

struct options {
    const char *path, *model, *mock;
    char headers[1024];
    int port, connections, mix[KINDS];
    long requests, prompt, prompts, chunks, early_ms, ramp_ms;
    double seconds, timeout;
};

struct conn {
    int fd;
    bool busy, used;
    enum kind kind;
    struct bytes in, out;
    size_t sent;
    struct answer answer;
    uint64_t started_ns, leave_ns;
};

struct samples {
    float *us;
    size_t n, cap;
};

static struct options opt = {.path = "/v1/chat/completions", .model = "mock-model", .mock = "", .port = 9100,
                             .connections = 1, .mix = {100, 0, 0, 0}, .prompt = 1024, .prompts = 1000, .chunks = 64,
                             .early_ms = 20, .seconds = 5, .timeout = 60};
static struct bytes requests[2]; /* whole and streamed; the prompt's number stands after the '#' */
static struct samples whole_us, first_us, transit_us;
static struct { uint64_t connect, status, broken, timeout, incomplete; } errors;
static uint64_t started, sent, done[KINDS], chunks;
static struct conn *conns, *by_fd[MAX_FDS];
static int epoll, last_status;

static void sample(struct samples *s, uint64_t ns) {
    if (s->n == s->cap) {
        s->cap = s->cap ? s->cap * 2 : 65536;
        s->us = realloc(s->us, s->cap * sizeof *s->us);
        if (!s->us) fail("realloc");
    }
    s->us[s->n++] = (float)ns / 1000;
}

static int by_value(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void print_samples(const char *name, struct samples *s) {
    static const double QUANTILES[] = {.5, .9, .99, 1};
    static const char *const NAMES[] = {"p50", "p90", "p99", "max"};
    if (s->n) qsort(s->us, s->n, sizeof *s->us, by_value);
    printf(",\"%s\":{\"n\":%zu", name, s->n);
    for (int i = 0; s->n && i < 4; i++)
        printf(",\"%s\":%.1f", NAMES[i], (double)s->us[(size_t)((double)(s->n - 1) * QUANTILES[i])]);
    printf("}");
}

/* ---- requests --------------------------------------------------------------------------------------------------- */

static void build_request(struct bytes *request, bool stream) {
    static const char words[] = "The quick brown fox asks the language model for a short and honest answer, please. ";
    struct bytes body = {0};
    char text[2048];
    int n = snprintf(text, sizeof text, "{\"model\":\"%s\",\"messages\":[{\"role\":\"user\",\"content\":\"#00000000 ", opt.model);
    append(&body, text, (size_t)n);
    for (long i = 0; i < opt.prompt; i++) append(&body, &words[i % (long)(sizeof words - 1)], 1);
    n = snprintf(text, sizeof text, "\"}],\"max_tokens\":400,\"temperature\":0.7%s,\"mock\":\"%s\"}",
                 stream ? ",\"stream\":true,\"stream_options\":{\"include_usage\":true}" : "", opt.mock);
    append(&body, text, (size_t)n);
    n = snprintf(text, sizeof text,
                 "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n%sContent-Length: %zu\r\n\r\n",
                 opt.path, opt.port, opt.headers, body.len);
    append(request, text, (size_t)n);
    append(request, body.at, body.len);
    free(body.at);
}

/* Spread over every hundred requests: 37 has no divisor in common with 100. */
static enum kind kind_of(uint64_t serial) {
    int at = (int)(serial * 37 % 100), kind = 0;
    for (; kind < KINDS - 1 && at >= opt.mix[kind]; kind++) at -= opt.mix[kind];
    return (enum kind)kind;
}

static void drop(struct conn *c) {
    if (c->fd >= 0) {
        close(c->fd);
        by_fd[c->fd] = NULL;
    }
    c->fd = -1;
    c->busy = c->used = false;
    c->in.len = c->out.len = c->sent = 0;
}

static void end(struct conn *c, uint64_t *error) {
    if (error) ++*error;
    else done[c->kind]++;
    c->busy = false;
    if (error || c->kind >= EARLY || c->answer.closes) drop(c);
}

static bool open_conn(struct conn *c) {
    struct sockaddr_in address = loopback(opt.port);
    c->fd = new_socket();
    by_fd[c->fd] = c;
    if (connect(c->fd, (struct sockaddr *)&address, sizeof address) && errno != EINPROGRESS) return false;
    watch(epoll, c->fd);
    return true;
}

static void start(struct conn *c) {
    c->kind = kind_of(started);
    c->busy = true;
    c->started_ns = now_ns();
    c->leave_ns = c->kind == EARLY ? c->started_ns + started * 7919 % (uint64_t)(opt.early_ms * 1000 + 1) * 1000 : 0;
    started++;
    if (c->fd < 0 && !open_conn(c)) {
        end(c, &errors.connect);
        return;
    }
    bool stream = c->kind == STREAM || c->kind == MIDWAY || (c->kind == EARLY && started % 2);
    append(&c->out, requests[stream].at, requests[stream].len);
    char *digits = memchr(c->out.at, '#', c->out.len);
    for (uint64_t i = 8, number = started % (uint64_t)opt.prompts; i; i--, number /= 10) digits[i] = (char)('0' + number % 10);
    answer_begin(&c->answer, stream);
}

/* ---- answers ---------------------------------------------------------------------------------------------------- */

static void judge(struct conn *c) {
    const struct answer *a = &c->answer;
    if (a->status != 200) {
        last_status = a->status;
        end(c, &errors.status);
    } else if (!a->usage || (a->stream && (!a->said_done || a->chunks != opt.chunks))) {
        end(c, &errors.incomplete);
    } else {
        if (c->kind < EARLY) sample(&whole_us, now_ns() - c->started_ns);
        end(c, NULL);
    }
}

static void take(struct conn *c) {
    struct answer *a = &c->answer;
    long before = a->chunks;
    uint64_t now = now_ns(), transit_ns[MAX_STAMPS];
    size_t used = answer_feed(a, c->in.at, c->in.len, now, transit_ns);
    drop_front(&c->in, used);
    if (!before && a->chunks) sample(&first_us, now - c->started_ns);
    for (long i = 0; i < a->chunks - before && i < MAX_STAMPS; i++) sample(&transit_us, transit_ns[i]);
    chunks += (uint64_t)(a->chunks - before);
    if (a->over) judge(c);
    else if (c->kind == MIDWAY && a->chunks >= opt.chunks / 2) end(c, NULL);
}

static void on_event(struct conn *c) {
    size_t unsent = c->out.len;
    if (!write_some(c->fd, &c->out, &c->sent)) {
        if (c->busy && !c->used) end(c, &errors.connect);
        else if (c->busy) end(c, &errors.broken);
        else drop(c);
        return;
    }
    if (unsent && !c->out.len) sent++;
    bool alive = read_all(c->fd, &c->in);
    c->used |= c->in.len > 0;
    if (c->busy && c->in.len) take(c);
    if (alive || c->fd < 0) return;
    if (c->busy) end(c, &errors.broken);
    else drop(c); /* an idle connection was closed: the next request opens another */
}

static void on_time(struct conn *c, uint64_t now) {
    bool all_sent = !c->out.len;
    if (c->busy && c->leave_ns && now >= c->leave_ns && all_sent) end(c, NULL);
    else if (c->busy && (double)(now - c->started_ns) > opt.timeout * 1e9) end(c, &errors.timeout);
}

/* ---- the run ---------------------------------------------------------------------------------------------------- */

static void parse_options(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(name, "--stream")) {
            memcpy(opt.mix, (int[KINDS]){0, 100, 0, 0}, sizeof opt.mix);
            continue;
        }
        i++;
        if (!strcmp(name, "--port")) opt.port = atoi(value);
        else if (!strcmp(name, "--path")) opt.path = value;
        else if (!strcmp(name, "--model")) opt.model = value;
        else if (!strcmp(name, "--mock")) opt.mock = value;
        else if (!strcmp(name, "--connections")) opt.connections = atoi(value);
        else if (!strcmp(name, "--requests")) opt.requests = atol(value);
        else if (!strcmp(name, "--prompt")) opt.prompt = atol(value);
        else if (!strcmp(name, "--prompts")) opt.prompts = atol(value);
        else if (!strcmp(name, "--chunks")) opt.chunks = atol(value);
        else if (!strcmp(name, "--early-ms")) opt.early_ms = atol(value);
        else if (!strcmp(name, "--ramp-ms")) opt.ramp_ms = atol(value);
        else if (!strcmp(name, "--seconds")) opt.seconds = atof(value);
        else if (!strcmp(name, "--timeout")) opt.timeout = atof(value);
        else if (!strcmp(name, "--mix")) sscanf(value, "%d,%d,%d,%d", opt.mix, opt.mix + 1, opt.mix + 2, opt.mix + 3);
        else if (!strcmp(name, "--header")) {
            size_t at = strlen(opt.headers);
            snprintf(opt.headers + at, sizeof opt.headers - at, "%s\r\n", value);
        } else {
            fprintf(stderr, "load: unknown option %s; they are listed at the head of load.c\n", name);
            exit(2);
        }
    }
}

static bool more_wanted(uint64_t begun_ns) {
    if (opt.requests) return started < (uint64_t)opt.requests;
    return (double)(now_ns() - begun_ns) < opt.seconds * 1e9;
}

static void run(uint64_t begun_ns) {
    struct epoll_event events[256];
    for (bool busy = true; busy || more_wanted(begun_ns);) {
        busy = false;
        uint64_t now = now_ns(), ramp_ns = (uint64_t)opt.ramp_ms * 1000000;
        for (int i = 0; i < opt.connections; i++) {
            struct conn *c = &conns[i];
            on_time(c, now);
            bool its_turn = now - begun_ns >= ramp_ns * (uint64_t)i / (uint64_t)opt.connections;
            if (!c->busy && its_turn && more_wanted(begun_ns)) {
                start(c);
                if (c->used) on_event(c); /* a connection that waits for its first byte has said it can be written */
            }
            busy |= c->busy;
        }
        int wait_ms = opt.mix[EARLY] || now - begun_ns < ramp_ns ? 1 : 50;
        int n = epoll_wait(epoll, events, 256, busy ? wait_ms : 0);
        for (int i = 0; i < n; i++)
            if (by_fd[events[i].data.fd]) on_event(by_fd[events[i].data.fd]);
    }
}

int main(int argc, char **argv) {
    parse_options(argc, argv);
    if ((epoll = epoll_create1(EPOLL_CLOEXEC)) < 0) fail("epoll_create1");
    if (!(conns = calloc((size_t)opt.connections, sizeof *conns))) fail("calloc");
    for (int i = 0; i < opt.connections; i++) conns[i].fd = -1;
    build_request(&requests[0], false);
    build_request(&requests[1], true);
    uint64_t begun_ns = now_ns();
    run(begun_ns);
    double seconds = (double)(now_ns() - begun_ns) / 1e9;
    uint64_t ok = done[WHOLE] + done[STREAM];
    printf("{\"seconds\":%.3f,\"started\":%" PRIu64 ",\"sent\":%" PRIu64 ",\"ok\":%" PRIu64 ",\"left_early\":%" PRIu64
           ",\"left_midway\":%" PRIu64 ",\"requests_per_s\":%.1f,\"chunks\":%" PRIu64 ",\"last_status\":%d",
           seconds, started, sent, ok, done[EARLY], done[MIDWAY], (double)ok / seconds, chunks, last_status);
    printf(",\"errors\":{\"connect\":%" PRIu64 ",\"status\":%" PRIu64 ",\"broken\":%" PRIu64 ",\"timeout\":%" PRIu64
           ",\"incomplete\":%" PRIu64 "}", errors.connect, errors.status, errors.broken, errors.timeout, errors.incomplete);
    print_samples("whole_us", &whole_us);
    print_samples("first_us", &first_us);
    print_samples("transit_us", &transit_us);
    printf("}\n");
    return 0;
}
