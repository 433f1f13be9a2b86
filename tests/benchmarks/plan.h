/* How a request to the upstream wants to be served: the words of its "mock" field. See upstream.c for what they mean. */
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

static void read_plan(struct plan *plan, const char *body) {
    *plan = (struct plan){.chunks = 64, .after = 10, .usage = is_true(body, "\"include_usage\"")};
    const char *text = strstr(body, "\"mock\":");
    for (const char *p = text ? strchr(text + 7, '"') : NULL; p && (*p == '"' || *p == ' ');) {
        char key[16], value[16];
        int used = 0;
        if (sscanf(p + 1, "%15[a-z_]=%15[a-z0-9]%n", key, value, &used) < 2) break;
        p += 1 + used;
        if (!strcmp(key, "chunks")) plan->chunks = atol(value);
        else if (!strcmp(key, "delay_us")) plan->delay_us = atol(value);
        else if (!strcmp(key, "first_us")) plan->first_us = atol(value);
        else if (!strcmp(key, "after")) plan->after = atol(value);
        else if (!strcmp(key, "fault"))
            for (int i = NONE; i <= STALL; i++)
                if (!strcmp(value, FAULTS[i])) plan->fault = (enum fault)i;
    }
}
