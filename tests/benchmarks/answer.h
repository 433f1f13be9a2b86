/* One HTTP answer as it arrives: its status, its framing undone, and what the load client wants to know of its body. */
#pragma once
#include "loopback.h"

enum { MAX_STAMPS = 4096, MAX_LINE = 8192 };

struct answer {
    bool stream, over, closes, usage, said_done;
    int status;
    long chunks; /* streamed contents */
    enum { HEAD, LENGTH, CHUNK_SIZE, CHUNK, CHUNK_END, LAST_CHUNK_END } phase;
    size_t left; /* of the body, or of the chunk */
    char line[MAX_LINE];
    size_t line_len;
};

static inline void answer_begin(struct answer *a, bool stream) {
    *a = (struct answer){.stream = stream};
}

/* One line of a body. Returns the time since the chunk in it was sent, or 0 where it holds none. */
static inline uint64_t answer_line(struct answer *a, const char *line, size_t len, uint64_t now) {
    if (memmem(line, len, "\"completion_tokens\":", 20)) a->usage = true;
    if (!a->stream || len < 6 || memcmp(line, "data:", 5)) return 0;
    if (memmem(line, len, "[DONE]", 6)) a->said_done = true;
    const char *stamp = memchr(line, '@', len);
    if (!stamp || (size_t)(line + len - stamp) <= STAMP_DIGITS) return 0;
    uint64_t sent_ns = 0;
    for (int i = 1; i <= STAMP_DIGITS; i++) sent_ns = sent_ns * 10 + (uint64_t)(stamp[i] - '0');
    a->chunks++;
    return now > sent_ns ? now - sent_ns : 1;
}

/* Body bytes, gathered into lines; a whole answer is one line whose end may be missing. */
static inline void answer_body(struct answer *a, const char *p, size_t n, uint64_t now, uint64_t *transit_ns, long *found) {
    while (n) {
        const char *newline = memchr(p, '\n', n);
        size_t part = newline ? (size_t)(newline - p) : n, room = MAX_LINE - a->line_len;
        memcpy(a->line + a->line_len, p, part < room ? part : room);
        a->line_len += part < room ? part : room;
        if (newline || !a->stream) {
            uint64_t ns = answer_line(a, a->line, a->line_len, now);
            if (ns && *found < MAX_STAMPS) transit_ns[(*found)++] = ns;
        }
        if (newline) a->line_len = 0;
        p += part + (newline != NULL);
        n -= part + (newline != NULL);
    }
}

static inline size_t answer_head(struct answer *a, const char *p, size_t n) {
    const char *end = memmem(p, n, "\r\n\r\n", 4), *value;
    if (!end) return 0;
    size_t size = (size_t)(end + 4 - p);
    a->status = atoi(p + 9);
    a->closes = (value = header(p, size, "\nconnection:")) && !strncasecmp(value, "close", 5);
    if ((value = header(p, size, "\ncontent-length:"))) {
        a->phase = LENGTH;
        a->over = !(a->left = strtoul(value, NULL, 10));
    } else {
        a->phase = CHUNK_SIZE; /* what is neither is an error that its first "size" shows */
    }
    return size;
}

/* The line with a chunk's size, or the empty line at a chunk's end; the last chunk, of size 0, has only the latter. */
static inline size_t answer_framing(struct answer *a, const char *p, size_t n) {
    const char *newline = memchr(p, '\n', n);
    if (!newline) return 0;
    if (a->phase == CHUNK_SIZE) {
        a->left = strtoul(p, NULL, 16);
        a->phase = a->left ? CHUNK : LAST_CHUNK_END;
    } else {
        a->over = a->phase == LAST_CHUNK_END;
        a->phase = CHUNK_SIZE;
    }
    return (size_t)(newline + 1 - p);
}

/* Takes what has arrived; returns how much of it was used. `transit_ns` gets one time for each further chunk. */
static inline size_t answer_feed(struct answer *a, const char *p, size_t n, uint64_t now, uint64_t *transit_ns) {
    size_t used = 0;
    long found = 0;
    while (!a->over && used < n) {
        const char *at = p + used;
        size_t have = n - used, step;
        if (a->phase == HEAD) {
            step = answer_head(a, at, have);
        } else if (a->phase == LENGTH || a->phase == CHUNK) {
            step = have < a->left ? have : a->left;
            answer_body(a, at, step, now, transit_ns, &found);
            a->left -= step;
            if (!a->left && a->phase == LENGTH) a->over = true;
            else if (!a->left) a->phase = CHUNK_END;
        } else {
            step = answer_framing(a, at, have);
        }
        if (!step) break;
        used += step;
    }
    return used;
}
