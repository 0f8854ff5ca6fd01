/*
 * check_why.c - results: their pinned values, names and texts, and the
 * sentence behind the last one.
 */
#include "base/why.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

#include "unit.h"

/* Written again, by hand: a value that changes breaks those built before. */
static const struct {
    int value;
    int constant;
    const char *name, *text;
} pinned[] = {
    {0, ENQ_OK, "ENQ_OK", "done"},
    {1, ENQ_BUSY, "ENQ_BUSY", "conflicting"},
    {2, ENQ_TIMEDOUT, "ENQ_TIMEDOUT", "timed out"},
    {3, ENQ_PENDING, "ENQ_PENDING", "waits"},
    {4, ENQ_EXISTS, "ENQ_EXISTS", "exists"},
    {5, ENQ_NOTHELD, "ENQ_NOTHELD", "no such"},
    {6, ENQ_EXPIRED, "ENQ_EXPIRED", "ttl"},
    {7, ENQ_LOST, "ENQ_LOST", "promotion"},
    {8, ENQ_REFUSED, "ENQ_REFUSED", "not possible"},
    {9, ENQ_DEADLOCK, "ENQ_DEADLOCK", "cycle"},
    {10, ENQ_CANCELLED, "ENQ_CANCELLED", "cancelled"},
    {11, ENQ_FORCED, "ENQ_FORCED", "operator"},
    {12, ENQ_OWNERDIED, "ENQ_OWNERDIED", "process"},
    {-5001, ENQ_EVERSION, "ENQ_EVERSION", "version"},
    {-5002, ENQ_ECORRUPT, "ENQ_ECORRUPT", "consistency"},
    {-5003, ENQ_EFULL, "ENQ_EFULL", "overflow"},
    {-5004, ENQ_EFORKED, "ENQ_EFORKED", "child"},
    {-5005, ENQ_ENAMESPACE, "ENQ_ENAMESPACE", "namespace"},
    {-5006, ENQ_EGONE, "ENQ_EGONE", "removed"},
    {-5007, ENQ_ELEASE, "ENQ_ELEASE", "lease"},
    {-5008, ENQ_EDIFFERS, "ENQ_EDIFFERS", "differs"},
    {-EINVAL, -EINVAL, "EINVAL", "Invalid"},
    {-ENOSPC, -ENOSPC, "ENOSPC", "space"},
    {-EROFS, -EROFS, "EROFS", "Read-only"},
    {-ENAMETOOLONG, -ENAMETOOLONG, "ENAMETOOLONG", "too long"},
};

TEST(a_result_has_its_pinned_value_name_and_text)
{
    ck_assert_int_eq(pinned[_i].value, pinned[_i].constant);
    ck_assert_str_eq(enq_result_name(pinned[_i].value), pinned[_i].name);
    ck_assert_ptr_nonnull(strstr(enq_strerror(pinned[_i].value),
        pinned[_i].text));
}

TEST(the_list_of_results_is_the_pinned_one)
{
    unsigned n = 0;

#define X(name, value, text) n += (value) == (name);
    ENQ_RESULT_MAP(X)
#undef X
    ck_assert_uint_eq(n, 21);
}

TEST(modes_and_deaths_have_their_pinned_values)
{
    ck_assert_int_eq(ENQ_MODE_S, 1);
    ck_assert_int_eq(ENQ_MODE_E, 2);
    ck_assert_int_eq(ENQ_MODE_X, 3);
    ck_assert_int_eq(ENQ_MODE_O, 4);
    ck_assert_int_eq(ENQ_DEATH_RELEASE, 0);
    ck_assert_int_eq(ENQ_DEATH_LEASE, 1);
    ck_assert_int_eq(ENQ_DEATH_KEEP, 2);
}

TEST(any_number_has_a_name_and_a_text)
{
    for (int i = -6000; i < 6000; i++) {
        ck_assert_ptr_nonnull(enq_result_name(i));
        ck_assert_ptr_nonnull(enq_strerror(i));
        ck_assert_ptr_null(strchr(enq_strerror(i), '\n'));
    }
    ck_assert_str_eq(enq_result_name(13), "UNKNOWN");
    ck_assert_str_eq(enq_strerror(-4097), "unknown result");
    ck_assert_str_eq(enq_result_name(INT_MIN), "UNKNOWN");
    ck_assert_str_eq(enq_strerror(INT_MIN), "unknown result");
    ck_assert_str_eq(enq_result_name(INT_MAX), "UNKNOWN");
    ck_assert_str_eq(enq_strerror(INT_MAX), "unknown result");
}

TEST(before_anything_went_wrong_there_is_a_sentence)
{
    ck_assert_ptr_nonnull(enq_why());
    ck_assert_ptr_null(strchr(enq_why(), '\n'));
}

TEST(a_time_has_the_unit_that_suits_it)
{
    static const struct {
        int64_t ms;
        const char *text;
    } times[] = {
        {-1, "-1 ms"},
        {0, "0 ms"},
        {999, "999 ms"},
        {1000, "1 s"},
        {1599, "1.5 s"},
        {9999, "9.9 s"},
        {10999, "10 s"},
        {59999, "59 s"},
        {130000, "2 min 10 s"},
        {3600000, "1 h 0 min"},
        {3600000 * 49LL, "2 d 1 h"},
    };
    char text[WHY_MS_BYTES];

    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        why_ms(text, times[i].ms);
        ck_assert_str_eq(text, times[i].text);
    }
    why_ms(text, INT64_MAX);
}

TEST(a_fault_is_explained_where_it_is_found)
{
    ck_assert_int_eq(why(-EINVAL, "no %s in %d", "name", 7), -EINVAL);
    ck_assert_str_eq(enq_why(), "no name in 7");
}

TEST(a_sentence_that_is_too_long_is_cut)
{
    char *text = malloc(100000);

    memset(text, 'x', 99999);
    text[99999] = '\0';
    why(-EINVAL, "%s", text);
    ck_assert_uint_ge(strlen(enq_why()), ENQ_KEY_BYTES + 3 * ENQ_OWNER_BYTES);
    ck_assert_uint_lt(strlen(enq_why()), WHY_BYTES);
    ck_assert_str_eq(strchr(enq_why(), '.'), "...");
    free(text);
}

TEST(a_sentence_is_one_line_whatever_it_quotes)
{
    char text[1000] = "";

    why(-EINVAL, "\"%s\" is unknown", "a\nfree\x1b[2J\x7f\tb");
    ck_assert_str_eq(enq_why(), "\"a\\x0afree\\x1b[2J\\x7f\\x09b\" is unknown");
    memset(text, '\n', sizeof(text) - 1);
    why(-EINVAL, "%s", text);
    ck_assert_uint_lt(strlen(enq_why()), WHY_BYTES);
    ck_assert_ptr_null(strchr(enq_why(), '\n'));
    ck_assert_str_eq(strchr(enq_why(), '.'), "...");
}

/* The longest way to show a byte, where it just has room before the mark; and a
   byte further, where it has none. */
TEST(a_sentence_that_is_cut_fills_its_room)
{
    const size_t before = WHY_BYTES - sizeof("\\x0a...");
    char text[WHY_BYTES] = "";

    memset(text, 'x', before);
    memset(text + before, '\n', 2);
    why(-EINVAL, "%s", text);
    ck_assert_uint_eq(strlen(enq_why()), WHY_BYTES - 1);
    ck_assert_str_eq(enq_why() + before, "\\x0a...");
    text[before] = 'x';
    why(-EINVAL, "%s", text);
    ck_assert_str_eq(enq_why() + before, "x...");
}

TEST(a_copy_that_is_cut_says_so)
{
    char out[8];

    why_copy(out, sizeof(out), "1234567");
    ck_assert_str_eq(out, "1234567");
    why_copy(out, sizeof(out), "12345678");
    ck_assert_str_eq(out, "1234...");
}

static void *complain(void *nothing)
{
    ck_assert_ptr_null(strstr(enq_why(), "mine"));
    why(-EINVAL, "yours");
    return nothing;
}

TEST(each_thread_has_its_own_sentence)
{
    pthread_t thread;

    why(-EINVAL, "mine");
    pthread_create(&thread, NULL, complain, NULL);
    pthread_join(thread, NULL);
    ck_assert_str_eq(enq_why(), "mine");
}

TEST(the_library_has_the_version_of_the_header)
{
    ck_assert_int_eq(enq_version(),
        ENQ_VERSION_MAJOR * 10000 + ENQ_VERSION_MINOR * 100 +
            ENQ_VERSION_PATCH);
}

int main(void)
{
    unit_begin("why");
    ADD_LOOP(a_result_has_its_pinned_value_name_and_text, LENGTH(pinned));
    ADD(the_list_of_results_is_the_pinned_one);
    ADD(modes_and_deaths_have_their_pinned_values);
    ADD(any_number_has_a_name_and_a_text);
    ADD(before_anything_went_wrong_there_is_a_sentence);
    ADD(a_time_has_the_unit_that_suits_it);
    ADD(a_fault_is_explained_where_it_is_found);
    ADD(a_sentence_that_is_too_long_is_cut);
    ADD(a_sentence_is_one_line_whatever_it_quotes);
    ADD(a_sentence_that_is_cut_fills_its_room);
    ADD(a_copy_that_is_cut_says_so);
    ADD(each_thread_has_its_own_sentence);
    ADD(the_library_has_the_version_of_the_header);
    return unit_end();
}
