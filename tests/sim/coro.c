/*
 * coro.c - coroutines: a simulated process is one (see coro.h).
 *
 * swapcontext() would make a system call per switch, which is most of what a
 * step may cost.
 */
#include "sim/coro.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#ifdef __x86_64__
#define KNOWN_MACHINE 1
#else
#define KNOWN_MACHINE 0
#endif
_Static_assert(KNOWN_MACHINE,
    "the simulation switches stacks by hand, and knows x86-64 only");

#define STACK_BYTES (128 * 1024)
#define GUARD_BYTES 4096

void coro_swap(void **save_sp, void *sp);

/* What a call must leave as it was, and the stack with it. */
__asm__(".text\n"
        ".globl coro_swap\n"
        ".hidden coro_swap\n"
        ".type coro_swap, @function\n"
        "coro_swap:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size coro_swap, .-coro_swap\n");

void coro_switch(struct coro *from, struct coro *to)
{
    coro_swap(&from->sp, to->sp);
}

static char *stack_new(void)
{
    char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

    if (stack == MAP_FAILED || mprotect(stack, GUARD_BYTES, PROT_NONE) != 0) {
        perror("sim: a stack");
        exit(2);
    }
    return stack;
}

void coro_begin(struct coro *c, void (*body)(void))
{
    uintptr_t *top;

    if (c->stack == NULL)
        c->stack = stack_new();
    top = (uintptr_t *)(c->stack + STACK_BYTES);
    *--top = 0;               /* where `body` would return to */
    *--top = (uintptr_t)body; /* popped by ret: the stack is then as after a
                                 call, 8 off a multiple of 16 */
    for (int i = 0; i < 6; i++)
        *--top = 0;
    c->sp = top;
}
