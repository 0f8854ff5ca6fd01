/*
 * visit.c - base: how much of a table a call looks at (see visit.h).
 */
#include "base/visit.h"

#ifdef ENQ_VISITS
__thread uint64_t visits[VISITS];
uint64_t *visits_of_helper;
#endif
