/*
 * documented.c - reads what enq.h promises (see documented.h).
 *
 * A function's comment is the one that begins with its name and a dash. One
 * that says "as enq_other()" has the faults of the other as well, and one that
 * says "of write(2)" those of the system call: any errno.
 */
#include "documented.h"

#include <ctype.h>

#include "frame.h"

#define HEADER "include/enq.h"

static const char *header(void)
{
    static char text[128 * 1024];
    FILE *f;

    if (text[0] != '\0')
        return text;
    f = fopen(HEADER, "re");
    must(f != NULL, HEADER ": %m (tests run in the root of the tree)");
    text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
    fclose(f);
    return text;
}

static const char *comment_of(const char *call, const char **end)
{
    char begin[64];
    const char *p;

    snprintf(begin, sizeof(begin), " enq_%s - ", call);
    p = strstr(header(), begin);
    must(p != NULL, HEADER " says nothing about enq_%s", call);
    *end = strstr(p, "*/");
    return p;
}

/* As a word of its own: -ENOMEM, and ENQ_ECORRUPT. */
static bool names(const char *p, const char *end, const char *word)
{
    size_t n = strlen(word);

    for (; (p = strstr(p, word)) != NULL && p < end; p += n)
        if (!isalnum((unsigned char)p[n]) && p[n] != '_')
            return true;
    return false;
}

/* What any call may say that is a thread's first in a space. */
static bool of_a_first_call(const char *word)
{
    const char *p = strstr(header(), "A thread's first call");
    const char *end = p == NULL ? NULL : strstr(p, "Fork:");

    return end != NULL && names(p, end, word);
}

bool documented(const char *call, int rc)
{
    const char *end, *p = comment_of(call, &end), *other;
    char word[64];

    snprintf(word, sizeof(word), "%s%s", rc > -4096 ? "-" : "",
        enq_result_name(rc));
    if (names(p, end, word) ||
        (strcmp(call, "unlink") != 0 && of_a_first_call(word)))
        return true;
    if (rc > -4096 && names(p, end, "(2)"))
        return true;
    other = strstr(p, "as enq_");
    if (other == NULL || other > end)
        return false;
    sscanf(other, "as enq_%31[a-z]", word);
    return documented(word, rc);
}
