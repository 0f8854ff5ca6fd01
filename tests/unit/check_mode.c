/*
 * check_mode.c - the mode tables, written again in another shape.
 */
#include "rules/mode.h"

#include "unit.h"

/* What may be granted beside what is held: held, asked, whose. */
struct pair {
    char held, asked;
    bool same_owner;
};

static bool listed(const char *allowed, const struct pair *p)
{
    for (; *allowed != '\0'; allowed += 4)
        if (allowed[0] == p->held && allowed[1] == p->asked &&
            (allowed[2] == '*' || (allowed[2] == '=') == p->same_owner))
            return true;
    return false;
}

/* "*": any owner, "=": the same owner. All else conflicts. */
static bool compatible(const char *table, const struct pair *p)
{
    if (strcmp(table, "enqueue") == 0)
        return listed("SS* OO* EE= ", p);
    return listed("SS* OO* SO* OS* EE= SE= ES= OE= EO= ", p);
}

static const struct pair *pair_of(int i, struct pair *p)
{
    *p = (struct pair){"SEXO"[i / 4 % 4], "SEXO"[i % 4], i / 16 % 2};
    return p;
}

static unsigned mode_of(char letter)
{
    char text[2] = {letter, '\0'};

    return mode_from_letter(text);
}

/* 2 tables, 2 owners, 4 held, 4 asked. */
TEST(a_pair_of_modes_conflicts_as_written)
{
    const struct mode_table *table = mode_table_at((uint32_t)_i / 32);
    struct pair p;

    pair_of(_i, &p);
    ck_assert_msg(mode_conflicts(table, mode_of(p.held), mode_of(p.asked),
                      p.same_owner) != compatible(table->name, &p),
        "%s: held %c, asked %c, %s owner", table->name, p.held, p.asked,
        p.same_owner ? "same" : "other");
}

TEST(whether_two_modes_conflict_does_not_depend_on_who_was_first)
{
    const struct mode_table *table = mode_table_at((uint32_t)_i / 32);
    struct pair p;

    pair_of(_i, &p);
    ck_assert_int_eq(mode_conflicts(table, mode_of(p.held), mode_of(p.asked),
                         p.same_owner),
        mode_conflicts(table, mode_of(p.asked), mode_of(p.held), p.same_owner));
}

TEST(what_conflicts_for_the_same_owner_does_so_for_others)
{
    for (uint32_t t = 0; mode_table_at(t) != NULL; t++)
        for (unsigned m = 0; m < MODES; m++)
            ck_assert_uint_eq(mode_table_at(t)->same[m] &
                    ~mode_table_at(t)->other[m],
                0);
}

TEST(no_mode_conflicts_with_nothing)
{
    for (uint32_t t = 0; mode_table_at(t) != NULL; t++)
        for (unsigned m = 0; m < MODES; m++) {
            ck_assert(!mode_conflicts(mode_table_at(t), 0, m, false));
            ck_assert(!mode_conflicts(mode_table_at(t), m, 0, false));
        }
}

TEST(tables_have_their_stored_numbers)
{
    ck_assert_int_eq(mode_table_find("enqueue"), 0);
    ck_assert_int_eq(mode_table_find("sap"), 1);
    ck_assert_str_eq(mode_table_at(0)->name, "enqueue");
    ck_assert_str_eq(mode_table_at(1)->name, "sap");
    ck_assert_ptr_null(mode_table_at(2));
    ck_assert_ptr_null(mode_table_at(UINT32_MAX));
}

TEST(unknown_tables_are_not_found)
{
    static const char *const names[] = {"", "SAP", "sap ", "enqueu", "e"};

    for (size_t i = 0; i < LENGTH(names); i++)
        ck_assert_int_lt(mode_table_find(names[i]), 0);
}

TEST(letters_lead_to_modes_and_back)
{
    for (unsigned m = 1; m < MODES; m++) {
        ck_assert_int_eq(mode_letter(m), "?SEXO"[m]);
        ck_assert_uint_eq(mode_of(mode_letter(m)), m);
    }
    ck_assert_int_eq(mode_letter(0), '?');
    ck_assert_int_eq(mode_letter(5), '?');
    ck_assert_int_eq(mode_letter(UINT32_MAX), '?');
}

TEST(what_is_no_letter_is_no_mode)
{
    static const char *const texts[] = {"", "s", "SE", "?", "U", "S ", "0"};

    for (size_t i = 0; i < LENGTH(texts); i++)
        ck_assert_uint_eq(mode_from_letter(texts[i]), 0);
}

TEST(only_the_four_modes_are_known)
{
    for (unsigned m = 0; m < 300; m++)
        ck_assert_int_eq(mode_known(m), m >= 1 && m <= 4);
    ck_assert(!mode_known(UINT32_MAX));
}

TEST(only_e_cumulates)
{
    for (unsigned m = 0; m < 10; m++)
        ck_assert_int_eq(mode_cumulates(m), m == ENQ_MODE_E);
}

TEST(o_is_promoted_to_e_and_nothing_else_is)
{
    for (unsigned m = 0; m < 10; m++)
        ck_assert_uint_eq(mode_promoted(m), m == ENQ_MODE_O ? ENQ_MODE_E : 0);
}

TEST(e_and_x_are_demoted_to_s_and_nothing_else_is)
{
    for (unsigned m = 0; m < 10; m++)
        ck_assert_uint_eq(mode_demoted(m),
            m == ENQ_MODE_E || m == ENQ_MODE_X ? ENQ_MODE_S : 0);
}

int main(void)
{
    unit_begin("mode");
    ADD_LOOP(a_pair_of_modes_conflicts_as_written, 64);
    ADD_LOOP(whether_two_modes_conflict_does_not_depend_on_who_was_first, 64);
    ADD(what_conflicts_for_the_same_owner_does_so_for_others);
    ADD(no_mode_conflicts_with_nothing);
    ADD(tables_have_their_stored_numbers);
    ADD(unknown_tables_are_not_found);
    ADD(letters_lead_to_modes_and_back);
    ADD(what_is_no_letter_is_no_mode);
    ADD(only_the_four_modes_are_known);
    ADD(only_e_cumulates);
    ADD(o_is_promoted_to_e_and_nothing_else_is);
    ADD(e_and_x_are_demoted_to_s_and_nothing_else_is);
    return unit_end();
}
