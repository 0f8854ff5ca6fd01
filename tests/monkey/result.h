/*
 * result.h - is this a result that the call can have had?
 */
#ifndef MONKEY_RESULT_H
#define MONKEY_RESULT_H

#include "story.h"

/* A lock while its story is told: what it is since its last change. */
struct hold {
    const struct op *op; /* that got it; NULL: there is none */
    uint8_t mode, maybe_mode;
    bool by_death;
    uint32_t delay_ms; /* as it was asked for, also when it was adopted */
    bool is_remote, is_session; /* its holder is; and it ends with a session */
    bool is_adopted;            /* through a bridge */
    uint64_t proof_seq;         /* that lived at least until then */
    uint64_t sure_seq, sure_to_seq; /* sure_seq 0: it never was for sure */
    uint64_t called_to_seq;         /* the same, but for deaths */
    int64_t sure_ns, sure_deadline;
    int64_t earliest_deadline; /* of those that it had before */
    int64_t renewed_ns; /* its last renewal was over; 0: there was none */
    int64_t maybe_ns, maybe_to_ns, maybe_deadline;
};

/* All that was done about one lock, in order. */
struct deeds {
    const struct op *const *ops;
    size_t n;
};

/* Says this result that there is no such lock any more? */
bool result_is_gone(int result);

/* May this promotion have taken the other's optimistic lock? */
bool promote_may_take(const struct op *promote, const struct op *op);

/* Of a call about a lock that somebody has, or had. */
void result_check(struct story *s, const struct hold *h, const struct op *op,
    const struct deeds *all);

/* Of its last words: has it ended, and like that? */
void result_check_why(struct story *s, const struct hold *h,
    const struct op *op, const struct deeds *all);

/* Of one that takes it over. */
void result_check_adopt(struct story *s, const struct op *op,
    const struct deeds *all);

/* It was to outlive its process, and nothing has ended it: is it there? */
void result_check_kept(struct story *s, const struct hold *h);

/* Of calls that ask for a lock. After story_tell(). */
void result_check_asking(struct story *s);

/* Everything that is there at rest has a reason to be there. */
void result_check_rest(struct story *s);

#endif
