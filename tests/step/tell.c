/*
 * tell.c - what is said of a failure: the operation, its state, the change,
 * the instruction and the place in the segment; and how to see it again.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "segment/layout.h"
#include "step.h"

#define FAILURES_MOST 24

extern const char __executable_start[], etext[];
struct tally *tally;

static const struct {
    const char *name;
    uint64_t at;
    uint32_t each;
} parts[] = {
    {"page", SEG_FIXED_END, PAGE_BYTES},
    {"line", SEG_BUCKETS, sizeof(struct bucket)},
    {"directory", SEG_DIRS, sizeof(struct shard_dir)},
    {"shard", SEG_SHARDS, sizeof(struct shard)},
    {"gate", SEG_GATES, sizeof(struct gate)},
    {"session", SEG_SESSIONS, sizeof(struct session_slot)},
    {"thread", SEG_THREADS, sizeof(struct thread_slot)},
    {"header", 0, PAGE_BYTES},
};

static void place_text(uint32_t at, char *text, size_t n)
{
    unsigned i = 0;

    while (at < parts[i].at)
        i++;
    at -= (uint32_t)parts[i].at;
    snprintf(text, n, "%s %u+%u", parts[i].name, at / parts[i].each,
        at % parts[i].each);
}

/* The line of the source, by addr2line; for a shared library its symbol. */
static void source_text(uint64_t rip, char *text, size_t n)
{
    uint64_t base = (uintptr_t)__executable_start;
    char command[160];
    Dl_info info;
    FILE *out;

    snprintf(text, n, "%#llx", (unsigned long long)rip);
    if (rip < base || rip >= (uintptr_t)etext) {
        if (dladdr((void *)(uintptr_t)rip, &info) && info.dli_sname != NULL)
            snprintf(text, n, "%s+%#llx", info.dli_sname,
                (unsigned long long)(rip - (uintptr_t)info.dli_saddr));
        return;
    }
    snprintf(command, sizeof(command),
        "addr2line -spfe /proc/%d/exe %#llx 2>/dev/null", (int)getpid(),
        (unsigned long long)(rip - base - 1));
    out = popen(command, "r");
    if (out == NULL)
        return;
    if (fgets(text, (int)n, out) != NULL)
        text[strcspn(text, "\n")] = '\0';
    pclose(out);
}

void point_text(const struct point *p, char *text, size_t n)
{
    char source[256] = "", place[64] = "";
    static const char *const kinds[] = {
        "end", "change", "change", "system call"};

    if (p->spot.rip != 0)
        source_text(p->spot.rip, source, sizeof(source));
    if (p->spot.at != 0)
        place_text(p->spot.at, place, sizeof(place));
    snprintf(text, n, "%s, state %u, %s %u: %s %s", ops[p->op].name, p->state,
        kinds[p->kind], p->n, source, place);
}

void fault(enum fault kind, const struct point *p, const char *format, ...)
{
    static const char *const words[] = {"stuck", "leak", "finding", "wrong"};
    uint64_t *counts[] = {
        &tally->stuck, &tally->leaked, &tally->findings, &tally->wrong};
    char where[512], what[1400];
    va_list list;

    ADD(*counts[kind], 1);
    if (ADD(tally->failures, 1) >= FAILURES_MOST)
        STORE(tally->stop, 1);
    va_start(list, format);
    vsnprintf(what, sizeof(what), format, list);
    va_end(list);
    point_text(p, where, sizeof(where));
    printf("FAIL %s: %s\n     after %s\n     again: --seed %llu --replay "
           "'%s:%u:%c%u'\n",
        words[kind], what, where, (unsigned long long)tally->seed,
        ops[p->op].name, p->state, p->kind == AIM_SYSCALL ? 's' : 'c', p->n);
    fflush(stdout);
}

/* A set of instructions, each of one operation. */
void place_note(unsigned op, uint64_t rip)
{
    uint64_t mine = rip << 5 | op, empty;

    for (uint64_t i = dice(0, rip, op);; i++) {
        empty = 0;
        if (LOAD(tally->place[i % PLACES]) == mine)
            return;
        if (__atomic_compare_exchange_n(&tally->place[i % PLACES], &empty, mine,
                false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            break;
    }
    ADD(tally->op[op].places, 1);
}
