/*
 * life.h - api: enq_life_fd(): a session that goes on after its process.
 */
#ifndef API_LIFE_H
#define API_LIFE_H

#include "api/attachment.h"

int local_life_fd(struct enq *e);

#endif
