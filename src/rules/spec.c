/*
 * spec.c - rules: "product/Computer/@" (see enq_lock_spec). Pure.
 */
#include "rules/spec.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/why.h"

struct spec {
    const char *at; /* what is left of the string */
    char *out;      /* where the next part goes */
    char *end;
};

static int hex_digit(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = strchr(digits, c >= 'A' && c <= 'F' ? c | 0x20 : c);

    return c == '\0' || at == NULL ? -1 : (int)(at - digits);
}

/* Behind a backslash: \xHH is that byte, anything else is itself. */
static int take_escape(struct spec *s, char *byte)
{
    int high, low;

    *byte = *s->at++;
    if (*byte == '\0')
        return why(-EINVAL, "the spec ends in a lone backslash");
    if (*byte != 'x')
        return 0;
    high = hex_digit(s->at[0]);
    low = high < 0 ? -1 : hex_digit(s->at[1]);
    if (low < 0)
        return why(-EINVAL,
            "in a spec, \\x needs two hexadecimal digits, which name a byte");
    if (high + low == 0)
        return why(-EINVAL, "the spec has \\x00: a key has no zero byte");
    *byte = (char)(high << 4 | low);
    s->at += 2;
    return 0;
}

/* Copies one part up to the next bare '/' or the end. *literal: it is an "@"
   that was escaped, and means itself. */
static int take_part(struct spec *s, const char **part, bool *literal)
{
    bool escaped = false;
    char byte;
    int rc;

    *part = s->out;
    while (*s->at != '\0' && *s->at != '/') {
        byte = *s->at++;
        if (byte == '\\') {
            escaped = true;
            rc = take_escape(s, &byte);
            if (rc != 0)
                return rc;
        }
        if (s->out + 1 >= s->end)
            return why(-ENAMETOOLONG, "the spec is too long");
        *s->out++ = byte;
    }
    *s->out++ = '\0';
    *literal = escaped && strcmp(*part, "@") == 0;
    return 0;
}

static int take_fields(struct spec *s, struct enq_req *req)
{
    bool literal;
    unsigned i = 0;

    while (*s->at == '/') {
        s->at++;
        if (i == ENQ_KEY_FIELDS_MAX)
            return why(-EINVAL, "the spec has more than %d key fields",
                ENQ_KEY_FIELDS_MAX);
        if (s->out >= s->end)
            return why(-ENAMETOOLONG, "the spec is too long");
        int rc = take_part(s, &req->key[i], &literal);
        if (rc != 0)
            return rc;
        if (literal)
            req->literal |= 1u << i;
        i++;
    }
    return 0;
}

int spec_parse(const char *spec, struct enq_req *req, char *buf, size_t n)
{
    struct spec s = {.at = spec, .out = buf};
    bool literal;
    int rc;

    if (spec == NULL || buf == NULL || n < 1)
        return why(-EINVAL, "the spec or its buffer is NULL or empty");
    s.end = buf + n;
    memset(req->key, 0, sizeof(req->key));
    req->literal = 0;
    rc = take_part(&s, &req->name, &literal);
    if (rc == 0 && req->name[0] == '\0')
        rc = why(-EINVAL, "the spec \"%.64s%s\" has no object name",
            WHY_CUT(spec));
    return rc != 0 ? rc : take_fields(&s, req);
}

/* --- the other way --- */

static char *write_byte(char *at, char byte, bool escaped)
{
    unsigned char b = (unsigned char)byte;

    if (b < 0x20 || b == 0x7f)
        return at + snprintf(at, sizeof("\\xHH"), "\\x%02x", b);
    if (escaped)
        *at++ = '\\';
    *at++ = byte;
    return at;
}

/* As many whole bytes as there is room for, in front of the mark. */
static char *write_part(char *at, const char *end, const char *part, bool any)
{
    bool literal = !any && strcmp(part, "@") == 0;

    for (; *part != '\0' && at + 4 <= end; part++)
        at = write_byte(at, *part, literal || strchr("/\\", *part) != NULL);
    if (*part == '\0') {
        *at = '\0';
        return at;
    }
    memcpy(at, "...", sizeof("..."));
    return at + sizeof("...");
}

void spec_write(const struct key *key, char *out, size_t n)
{
    const char *part = key->bytes, *end = out + n - sizeof("...");
    char *at = write_part(out, end, part, false);

    for (unsigned i = 0; i < key->fields && at < end; i++) {
        part += strlen(part) + 1;
        *at++ = '/';
        at = write_part(at, end, part, (key->generic >> i & 1) != 0);
    }
}
