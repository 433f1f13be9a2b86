/* What the upstream and the load client share: time, loopback addresses, growing buffers, and one look at a header. */
#pragma once
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { STAMP_DIGITS = 19, MAX_FDS = 4096 };

static inline void fail(const char *what) {
    perror(what);
    exit(1);
}

static inline uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* A socket that does not wait and does not gather small writes. */
static inline int new_socket(void) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || fd >= MAX_FDS) fail("socket");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    return fd;
}

static inline struct sockaddr_in loopback(int port) {
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* Edge-triggered in both directions: whoever is woken reads and writes until there is nothing left to do. */
static inline void watch(int epoll, int fd) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.fd = fd};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event)) fail("epoll_ctl");
}

struct bytes {
    char *at;
    size_t len, cap;
};

static inline void reserve(struct bytes *b, size_t more) {
    if (b->len + more <= b->cap) return;
    b->cap = (b->len + more) * 2;
    b->at = realloc(b->at, b->cap);
    if (!b->at) fail("realloc");
}

static inline void append(struct bytes *b, const char *data, size_t len) {
    reserve(b, len);
    memcpy(b->at + b->len, data, len);
    b->len += len;
}

static inline void drop_front(struct bytes *b, size_t len) {
    memmove(b->at, b->at + len, b->len - len);
    b->len -= len;
}

/* Reads until the socket is empty; false when the other side has closed or broken the connection. */
static inline bool read_all(int fd, struct bytes *in) {
    for (;;) {
        reserve(in, 65536);
        ssize_t n = recv(fd, in->at + in->len, in->cap - in->len, 0);
        if (n > 0) in->len += (size_t)n;
        else if (n < 0 && errno == EINTR) continue;
        else return n < 0 && errno == EAGAIN;
    }
}

/* Sends what the socket takes; false when the connection is broken. */
static inline bool write_some(int fd, struct bytes *out, size_t *sent) {
    while (*sent < out->len) {
        ssize_t n = send(fd, out->at + *sent, out->len - *sent, MSG_NOSIGNAL);
        if (n > 0) *sent += (size_t)n;
        else if (n < 0 && errno == EINTR) continue;
        else return n < 0 && errno == EAGAIN;
    }
    *sent = out->len = 0;
    return true;
}

/* The value of a header (its name with a newline before and a colon after), or NULL. */
static inline const char *header(const char *head, size_t len, const char *name) {
    size_t size = strlen(name);
    for (const char *line = memchr(head, '\n', len); line; line = memchr(line + 1, '\n', len - (size_t)(line + 1 - head))) {
        if (len - (size_t)(line - head) <= size) return NULL;
        if (strncasecmp(line, name, size)) continue;
        const char *value = line + size;
        while (*value == ' ') value++;
        return value;
    }
    return NULL;
}
