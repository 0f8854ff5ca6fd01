/*
 * mode.c - rules: the mode tables (SEMANTICS, "Modes").
 */
#include "rules/mode.h"

#include <stddef.h>
#include <string.h>

#define S (1u << ENQ_MODE_S)
#define E (1u << ENQ_MODE_E)
#define X (1u << ENQ_MODE_X)
#define O (1u << ENQ_MODE_O)

/* The second is SAP's own: the same owner's S, E and O do not block each
   other, and S and O coexist. */
static const struct mode_table tables[] = {
    {
        .name = "enqueue",
        .other =
            {
                [ENQ_MODE_S] = E | X | O,
                [ENQ_MODE_E] = S | E | X | O,
                [ENQ_MODE_X] = S | E | X | O,
                [ENQ_MODE_O] = S | E | X,
            },
        .same =
            {
                [ENQ_MODE_S] = E | X | O,
                [ENQ_MODE_E] = S | X | O,
                [ENQ_MODE_X] = S | E | X | O,
                [ENQ_MODE_O] = S | E | X,
            },
    },
    {
        .name = "sap",
        .other =
            {
                [ENQ_MODE_S] = E | X,
                [ENQ_MODE_E] = S | E | X | O,
                [ENQ_MODE_X] = S | E | X | O,
                [ENQ_MODE_O] = E | X,
            },
        .same =
            {
                [ENQ_MODE_S] = X,
                [ENQ_MODE_E] = X,
                [ENQ_MODE_X] = S | E | X | O,
                [ENQ_MODE_O] = X,
            },
    },
};

static const struct {
    char letter;
    bool cumulates;
    uint8_t promoted, demoted;
} modes[MODES] = {
    [ENQ_MODE_S] = {'S', false, 0, 0},
    [ENQ_MODE_E] = {'E', true, 0, ENQ_MODE_S},
    [ENQ_MODE_X] = {'X', false, 0, ENQ_MODE_S},
    [ENQ_MODE_O] = {'O', false, ENQ_MODE_E, 0},
};

const struct mode_table *mode_table_at(uint32_t number)
{
    if (number >= sizeof(tables) / sizeof(tables[0]))
        return NULL;
    return &tables[number];
}

int mode_table_find(const char *name)
{
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
        if (strcmp(tables[i].name, name) == 0)
            return (int)i;
    return -1;
}

bool mode_is_exclusive(const struct mode_table *t, unsigned mode)
{
    return mode_known(mode) && t->other[mode] == (S | E | X | O);
}

bool mode_excludes_all(const struct mode_table *t, unsigned mode)
{
    return mode_known(mode) && t->same[mode] == (S | E | X | O);
}

bool mode_known(unsigned mode)
{
    return mode < MODES && modes[mode].letter != '\0';
}

bool mode_cumulates(unsigned mode)
{
    return mode < MODES && modes[mode].cumulates;
}

unsigned mode_promoted(unsigned mode)
{
    return mode < MODES ? modes[mode].promoted : 0;
}

unsigned mode_demoted(unsigned mode)
{
    return mode < MODES ? modes[mode].demoted : 0;
}

char mode_letter(unsigned mode)
{
    return mode_known(mode) ? modes[mode].letter : '?';
}

unsigned mode_from_letter(const char *text)
{
    for (unsigned m = 1; m < MODES; m++)
        if (text[0] == modes[m].letter && text[1] == '\0')
            return m;
    return 0;
}
