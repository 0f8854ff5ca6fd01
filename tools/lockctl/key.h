/*
 * key.h - objects with their keys, as lockctl compares and prints them.
 */
#ifndef KEY_H
#define KEY_H

#include <enq.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct key {
    const char *name;
    const char *field[ENQ_KEY_FIELDS_MAX];
    unsigned n;
    uint32_t any; /* bit i: field i is generic */
};

/* Both point into what they are made of. */
void key_of_info(struct key *key, const struct enq_info *info);
void key_of_req(struct key *key, const struct enq_req *req);

/* Could locks on the two be in each other's way? */
bool key_overlap(const struct key *a, const struct key *b);

/* Any total order in which equal means equal bytes. */
int key_order(const struct key *a, const struct key *b);

/* The spec form, that enq_spec_parse() reads: of the object's name alone, of
   the fields alone, of both. */
#define KEY_SPEC_BYTES 4096
void key_name_spec(char out[KEY_SPEC_BYTES], const struct key *key);
void key_fields_spec(char out[KEY_SPEC_BYTES], const struct key *key);
void key_spec(char out[KEY_SPEC_BYTES], const struct key *key);

#endif
