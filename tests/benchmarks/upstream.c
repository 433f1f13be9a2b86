/* upstream: an OpenAI-compatible server on loopback that answers out of memory, to measure what stands before it.
 *
 *   POST .../chat/completions   a whole answer of 400 tokens, or a stream where the body has "stream": true
 *   GET  /stats                 counters as JSON; `active` are requests whose answer is not out yet
 *   GET  /usual?chunks=32&...   says how to serve from now on, in the words below
 *   GET  anything else          200 and an empty list of models
 *
 * A request may say otherwise for itself, in a field that a gateway passes on or drops:
 *
 *   "mock": "chunks=64 delay_us=5000 first_us=20000 fault=die after=10"
 *
 * fault=busy     429 with Retry-After: 1          fault=broken   500
 *       hang     never answers                    fault=garbage  200, and a body that is no JSON
 *       die      ends the connection after `after` chunks of a stream, or half a whole answer
 *       reset    the same, with a TCP reset       fault=stall    falls silent there, connection open
 *
 * Each streamed content is "@" and 19 digits, the monotonic clock in ns at sending: the load client on the same
 * machine tells from it how long the chunk was under way. One thread, one epoll, loopback only.
 *
 * cc -O2 -Wall -Wextra -Werror -o upstream upstream.c && ./upstream 9100
 */
#include "loopback.h"
#include "plan.h"

enum { MAX_BODY = 16 << 20, WHOLE_TOKENS = 400 };
enum step { IDLE, WHOLE, STREAM, SILENT };

struct conn {
    bool open;
    enum step step;
    struct plan plan;
    long event; /* the next one of this stream */
    uint64_t due_ns;
    struct bytes in, out;
    size_t sent;
};

static struct {
    uint64_t connections, open, requests, active, whole, streams, chunks, left;
} stats;
static struct conn conns[MAX_FDS];
static int epoll, top_fd;
static struct bytes whole_answer;
static char content_event[512];
static size_t content_size, stamp_at;

#define EVENT_HEAD                                                                                                     \
    "data: {\"id\":\"chatcmpl-0123456789\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,"              \
    "\"model\":\"mock-model\",\"system_fingerprint\":\"fp_mock\",\"choices\":["
#define CHOICE(delta, reason) "{\"index\":0,\"delta\":" delta ",\"logprobs\":null,\"finish_reason\":" reason "}"
static const char STREAM_HEAD[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
                                  "Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n";

/* ---- answers ---------------------------------------------------------------------------------------------------- */

static void put_text(struct bytes *out, const char *text) { append(out, text, strlen(text)); }

static void put_event(struct bytes *out, const char *event, size_t len) {
    char size[24];
    append(out, size, (size_t)snprintf(size, sizeof size, "%zx\r\n", len));
    append(out, event, len);
    append(out, "\r\n", 2);
}

static void put_answer(struct bytes *out, const char *status, const char *more, const char *body) {
    char head[256];
    int n = snprintf(head, sizeof head, "HTTP/1.1 %s\r\nContent-Type: application/json\r\n%sContent-Length: %zu\r\n\r\n",
                     status, more, strlen(body));
    append(out, head, (size_t)n);
    put_text(out, body);
}

static void build_answers(void) {
    static const char *const words[] = {" the", " model", " answers", " with", " plain", " words", " of", " tokens"};
    struct bytes body = {0};
    char usage[160];
    put_text(&body, "{\"id\":\"chatcmpl-0123456789\",\"object\":\"chat.completion\",\"created\":1700000000,\"model\":"
                    "\"mock-model\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"");
    for (int i = 0; i < WHOLE_TOKENS; i++) put_text(&body, words[i % 8]);
    put_text(&body, "\",\"refusal\":null},\"logprobs\":null,\"finish_reason\":\"stop\"}],");
    snprintf(usage, sizeof usage, "\"usage\":{\"prompt_tokens\":128,\"completion_tokens\":%d,\"total_tokens\":%d}}",
             WHOLE_TOKENS, WHOLE_TOKENS + 128);
    append(&body, usage, strlen(usage) + 1);
    put_answer(&whole_answer, "200 OK", "", body.at);
    free(body.at);
    content_size = (size_t)snprintf(content_event, sizeof content_event, "%s",
                                    EVENT_HEAD CHOICE("{\"content\":\"@0000000000000000000 \"}", "null") "]}\n\n");
    stamp_at = (size_t)(strchr(content_event, '@') + 1 - content_event);
}

static void put_content(struct bytes *out) {
    uint64_t t = now_ns();
    for (int i = STAMP_DIGITS - 1; i >= 0; i--, t /= 10) content_event[stamp_at + (size_t)i] = (char)('0' + t % 10);
    put_event(out, content_event, content_size);
    stats.chunks++;
}

/* The stream's next event: role, contents, finish, usage where it was asked for, done. False after the last. */
static bool put_next_event(struct conn *c) {
    static const char role[] = EVENT_HEAD CHOICE("{\"role\":\"assistant\",\"content\":\"\"}", "null") "]}\n\n";
    static const char finish[] = EVENT_HEAD CHOICE("{}", "\"stop\"") "]}\n\n";
    long event = c->event++;
    if (event == 0) {
        put_event(&c->out, role, sizeof role - 1);
    } else if (event <= c->plan.chunks) {
        put_content(&c->out);
    } else if (event == c->plan.chunks + 1) {
        put_event(&c->out, finish, sizeof finish - 1);
    } else if (event == c->plan.chunks + 2 && c->plan.usage) {
        char text[512];
        int n = snprintf(text, sizeof text, EVENT_HEAD "],\"usage\":{\"prompt_tokens\":128,\"completion_tokens\":%ld,"
                         "\"total_tokens\":%ld}}\n\n", c->plan.chunks, c->plan.chunks + 128);
        put_event(&c->out, text, (size_t)n);
    } else {
        put_event(&c->out, "data: [DONE]\n\n", 14);
        put_text(&c->out, "0\r\n\r\n");
        return false;
    }
    return true;
}

/* ---- connections ------------------------------------------------------------------------------------------------ */

static void begin(struct conn *c, enum step step) {
    c->step = step;
    stats.active++;
}

static void finish(struct conn *c) {
    c->step = IDLE;
    stats.active--;
}

static void close_conn(int fd) {
    struct conn *c = &conns[fd];
    if (c->step != IDLE) {
        finish(c);
        stats.left++;
    }
    close(fd);
    free(c->in.at);
    free(c->out.at);
    *c = (struct conn){0};
    stats.open--;
}

static bool flush(int fd) {
    if (write_some(fd, &conns[fd].out, &conns[fd].sent)) return true;
    close_conn(fd);
    return false;
}

/* Ends the connection in the middle of an answer, on our own account. */
static void break_off(int fd) {
    struct conn *c = &conns[fd];
    if (c->plan.fault == RESET) setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
    finish(c);
    close_conn(fd);
}

/* ---- requests --------------------------------------------------------------------------------------------------- */

static void serve_chat(struct conn *c, const char *body) {
    stats.requests++;
    read_plan(&c->plan, body);
    c->event = 0;
    c->due_ns = now_ns() + (uint64_t)c->plan.first_us * 1000;
    switch (c->plan.fault) {
    case BUSY:
        put_answer(&c->out, "429 Too Many Requests", "Retry-After: 1\r\n",
                   "{\"error\":{\"message\":\"too many requests\",\"type\":\"requests\",\"code\":\"rate_limit_exceeded\"}}");
        return;
    case BROKEN:
        put_answer(&c->out, "500 Internal Server Error", "", "{\"error\":{\"message\":\"it broke\",\"type\":\"server_error\"}}");
        return;
    case GARBAGE: put_answer(&c->out, "200 OK", "", "this { is no JSON"); return;
    case HANG: begin(c, SILENT); return;
    default: begin(c, is_true(body, "\"stream\"") ? STREAM : WHOLE);
    }
}

static void serve_get(struct conn *c, const char *path) {
    char text[384] = "{\"object\":\"list\",\"data\":[]}";
    if (!strncmp(path, "/stats", 6))
        snprintf(text, sizeof text,
                 "{\"connections\":%" PRIu64 ",\"open\":%" PRIu64 ",\"requests\":%" PRIu64 ",\"active\":%" PRIu64
                 ",\"whole\":%" PRIu64 ",\"streams\":%" PRIu64 ",\"chunks\":%" PRIu64 ",\"left\":%" PRIu64 "}",
                 stats.connections, stats.open, stats.requests, stats.active, stats.whole, stats.streams, stats.chunks,
                 stats.left);
    if (!strncmp(path, "/usual?", 7)) {
        usual = (struct plan){.chunks = 64, .after = 10};
        read_words(&usual, path + 7);
    }
    put_answer(&c->out, "200 OK", "", text);
}

/* Serves one request of the input, if a whole one is there. */
static bool take_request(struct conn *c) {
    char *end = c->in.len ? memmem(c->in.at, c->in.len, "\r\n\r\n", 4) : NULL;
    if (!end) return false;
    size_t head = (size_t)(end + 4 - c->in.at);
    const char *length = header(c->in.at, head, "\ncontent-length:");
    size_t body = length ? strtoul(length, NULL, 10) : 0;
    if (body > MAX_BODY) fail("a body beyond all bounds");
    if (c->in.len < head + body) return false;
    reserve(&c->in, 1); /* room for a NUL in place of what may follow */
    char *stop = c->in.at + head + body, next = *stop;
    *stop = 0;
    if (!strncmp(c->in.at, "POST ", 5)) serve_chat(c, c->in.at + head);
    else if (!strncmp(c->in.at, "GET ", 4)) serve_get(c, c->in.at + 4);
    else put_answer(&c->out, "400 Bad Request", "Connection: close\r\n", ""); /* who tries HTTP/2 goes on with HTTP/1.1 */
    *stop = next;
    drop_front(&c->in, head + body);
    return true;
}

/* ---- time ------------------------------------------------------------------------------------------------------- */

static void advance(int fd) {
    struct conn *c = &conns[fd];
    bool breaks = c->plan.fault >= DIE;
    if (c->step == WHOLE) {
        append(&c->out, whole_answer.at, breaks ? whole_answer.len / 2 : whole_answer.len);
        if (!breaks) finish(c), stats.whole++;
    } else {
        if (c->event == 0) append(&c->out, STREAM_HEAD, sizeof STREAM_HEAD - 1);
        breaks = breaks && c->event > c->plan.after;
        if (!breaks && !put_next_event(c)) finish(c), stats.streams++;
        c->due_ns = c->plan.delay_us ? c->due_ns + (uint64_t)c->plan.delay_us * 1000 : now_ns();
    }
    if (!flush(fd) || !breaks) return;
    if (c->plan.fault == STALL) c->step = SILENT;
    else break_off(fd);
}

/* Advances every answer that is due, by one step each; gives the milliseconds until the next, -1 for none. */
static int run_due(void) {
    uint64_t now = now_ns(), next = UINT64_MAX;
    for (int fd = 0; fd <= top_fd; fd++) {
        struct conn *c = &conns[fd];
        if ((c->step != WHOLE && c->step != STREAM) || c->out.len) continue; /* a slow reader wakes us by EPOLLOUT */
        if (c->due_ns <= now) advance(fd);
        if ((c->step == WHOLE || c->step == STREAM) && !c->out.len && c->due_ns < next) next = c->due_ns;
    }
    if (next == UINT64_MAX) return -1;
    return next <= now_ns() ? 0 : (int)((next - now) / 1000000 + 1);
}

static void accept_all(int listener) {
    for (int fd; (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
        if (fd >= MAX_FDS) fail("too many connections");
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        conns[fd].open = true;
        top_fd = fd > top_fd ? fd : top_fd;
        stats.connections++, stats.open++;
        watch(epoll, fd);
    }
}

static void serve(int fd) {
    struct conn *c = &conns[fd];
    if (!c->open) return; /* closed by an earlier event of the same round */
    bool alive = read_all(fd, &c->in);
    while (alive && c->step == IDLE && take_request(c)) {}
    if (alive) flush(fd);
    else close_conn(fd);
}

int main(int argc, char **argv) {
    struct sockaddr_in address = loopback(argc > 1 ? atoi(argv[1]) : 9100);
    int listener = new_socket();
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 4096)) fail("bind");
    if ((epoll = epoll_create1(EPOLL_CLOEXEC)) < 0) fail("epoll_create1");
    build_answers();
    watch(epoll, listener);
    for (struct epoll_event events[256];;) {
        int n = epoll_wait(epoll, events, 256, run_due());
        for (int i = 0; i < n; i++) {
            if (events[i].data.fd == listener) accept_all(listener);
            else serve(events[i].data.fd);
        }
    }
}
