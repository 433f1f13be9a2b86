/* How a request is to be served: as usual, but for the words of its "mock" field. See upstream.c for what they mean. */
#pragma once
#include "loopback.h"

enum fault { NONE, BUSY, BROKEN, HANG, GARBAGE, DIE, RESET, STALL };
static const char *const FAULTS[] = {"none", "busy", "broken", "hang", "garbage", "die", "reset", "stall"};

struct plan {
    long chunks, delay_us, first_us, after;
    enum fault fault;
    bool usage;
};

static bool is_true(const char *body, const char *key) {
    const char *at = strstr(body, key);
    return at && at[strlen(key) + strspn(at + strlen(key), " :")] == 't';
}

static struct plan usual = {.chunks = 64, .after = 10};

static void read_words(struct plan *plan, const char *p) {
    char key[16], value[16];
    for (int used = 0; sscanf(p, "%15[a-z_]=%15[a-z0-9]%n", key, value, &used) == 2; p += used + 1) {
        if (!strcmp(key, "chunks")) plan->chunks = atol(value);
        else if (!strcmp(key, "delay_us")) plan->delay_us = atol(value);
        else if (!strcmp(key, "first_us")) plan->first_us = atol(value);
        else if (!strcmp(key, "after")) plan->after = atol(value);
        else if (!strcmp(key, "fault"))
            for (int i = NONE; i <= STALL; i++)
                if (!strcmp(value, FAULTS[i])) plan->fault = (enum fault)i;
        if (p[used] != ' ' && p[used] != '&') break;
    }
}

static void read_plan(struct plan *plan, const char *body) {
    *plan = usual;
    plan->usage = is_true(body, "\"include_usage\"");
    const char *field = strstr(body, "\"mock\":"), *words = field ? strchr(field + 7, '"') : NULL;
    if (words) read_words(plan, words + 1);
}
