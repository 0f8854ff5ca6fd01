/*
 * options.c - how enq-bridge was asked to run (see options.h).
 */
#include "options.h"

#include <ctype.h>
#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "say.h"
#include "wire/text.h"
#include <enq.h>

struct limit {
    const char *flag, *what;
    int64_t fallback, least, most;
    size_t at;
};

static const struct limit limits[] = {
#define X(name, flag, fallback, least, most, what)                             \
    {flag, what, fallback, least, most, offsetof(struct limits, name)},
    NUMBER_MAP(X)
#undef X
};

#define N_LIMITS (sizeof(limits) / sizeof(limits[0]))

/* So many are told to clients: the first ones. */
#define X(...) +1
enum { N_TOLD = 0 LIMIT_MAP(X) };
#undef X

static int64_t *limit_of(struct limits *of, const struct limit *l)
{
    return (int64_t *)((char *)of + l->at);
}

void options_tell(const struct limits *of, struct text *out)
{
    for (size_t i = 0; i < N_TOLD; i++)
        text_member_number(out, limits[i].flag,
            *(const int64_t *)((const char *)of + limits[i].at));
}

/* --- help --- */

static void help(void)
{
    puts(
        "usage: enq-bridge [OPTION]...\n"
        "Serves the locks of a space to remote clients (enq-bridge(8)).\n\n"
        "  -S, --space SPACE      shm:NAME or /path ($ENQ_SPACE, shm:enq);\n"
        "                         another user's: shm:NAME?owner=USER\n"
        "  -l, --listen ADDRESS   tcp:HOST:PORT or unix:/path, several times\n"
        "                         (tcp:127.0.0.1:3721, unix:/run/enq/bridge)\n"
        "      --space-mode MODE  permissions of a new space (0600)\n"
        "      --make-space       make the space if it is missing, and exit\n"
        "      --unix-mode MODE   permissions of the unix socket (0660)\n"
        "      --unix-group NAME  its group\n"
        "      --shared-ids       ids of requests without a session are those\n"
        "                         of the space, not of the client's host\n"
        "      --insecure         listen where other hosts can reach it:\n"
        "                         anyone who can may take and break any lock\n"
        "  -v, --verbose          report who connects and disconnects\n"
        "  -h, --help, -V, --version\n\n"
        "Each option is also $ENQ_BRIDGE_NAME (ENQ_BRIDGE_UNIX_MODE): 1 where "
        "it has no\nvalue, several addresses with blanks between. Limits and "
        "threads:");
    for (size_t i = 0; i < N_LIMITS; i++)
        printf("  --%s N (%lld)\n      %s\n", limits[i].flag,
            (long long)limits[i].fallback, limits[i].what);
}

/* --- values --- */

/* What is no long long comes out as the largest or smallest, and is refused. */
static void set_limit(struct options *o, const struct limit *l,
    const char *value, const char *from)
{
    char *end;
    long long number;

    number = strtoll(value, &end, 10);
    if (end == value || *end != '\0' || number < l->least || number > l->most)
        say_die(EX_USAGE, "%s \"%s\" is not a number from %lld to %lld", from,
            value, (long long)l->least, (long long)l->most);
    *limit_of(&o->limits, l) = number;
}

static char *environment(const char *flag, char name[64])
{
    snprintf(name, 64, "ENQ_BRIDGE_%s", flag);
    for (char *at = name; *at != '\0'; at++)
        *at = *at == '-' ? '_' : (char)toupper((unsigned char)*at);
    return getenv(name);
}

static void take_limits(struct options *o)
{
    for (size_t i = 0; i < N_LIMITS; i++) {
        char name[64];
        const char *value = environment(limits[i].flag, name);

        *limit_of(&o->limits, &limits[i]) = limits[i].fallback;
        if (value != NULL)
            set_limit(o, &limits[i], value, name);
    }
}

static mode_t mode_from(const char *flag, const char *value)
{
    char *end;
    unsigned long mode = strtoul(value, &end, 8);

    if (end == value || *end != '\0' || mode > 0777)
        say_die(EX_USAGE, "%s \"%s\" is not a mode such as 0660", flag, value);
    return (mode_t)mode;
}

static void add_listener(struct options *o, const char *address)
{
    if (o->n_listen == LISTENERS_MAX)
        say_die(EX_USAGE, "more than %d addresses to listen on", LISTENERS_MAX);
    o->listen[o->n_listen++] = address;
}

/* --- the command line --- */

enum {
    OPT_MODE = 256,
    OPT_SPACE_MODE,
    OPT_MAKE,
    OPT_GROUP,
    OPT_SHARED,
    OPT_INSECURE,
    OPT_LIMIT
};

static void set_option(struct options *o, int option, char *value)
{
    switch (option) {
    case 'S':
        o->space = value;
        break;
    case 'l':
        if (o->listen_given > 0) /* by the environment: in its place */
            o->n_listen = o->listen_given = 0;
        add_listener(o, value);
        break;
    case OPT_MODE:
        o->unix_mode = mode_from("--unix-mode", value);
        break;
    case OPT_SPACE_MODE:
        o->space_mode = mode_from("--space-mode", value);
        break;
    case OPT_MAKE:
        o->make_space = true;
        break;
    case OPT_GROUP:
        o->unix_group = value;
        break;
    case OPT_SHARED:
        o->shared_ids = true;
        break;
    case OPT_INSECURE:
        o->insecure = true;
        break;
    case 'v':
        o->verbose = true;
        break;
    case 'h':
        help();
        exit(0);
    case 'V':
        printf("enq-bridge %d.%d.%d\n", ENQ_VERSION_MAJOR, ENQ_VERSION_MINOR,
            ENQ_VERSION_PATCH);
        exit(0);
    default:
        break;
    }
}

/* Several, separated by blanks. */
static void add_listeners(struct options *o, const char *addresses)
{
    char *rest = NULL;

    o->listed = strdup(addresses);
    if (o->listed == NULL)
        say_die(EX_OSERR, "out of memory");
    for (char *at = strtok_r(o->listed, " ", &rest); at != NULL;
         at = strtok_r(NULL, " ", &rest))
        add_listener(o, at);
}

static bool is_yes(const char *name, const char *value)
{
    if (strcmp(value, "1") != 0 && strcmp(value, "0") != 0 && *value != '\0')
        say_die(EX_USAGE, "%s \"%s\": 1 or 0", name, value);
    return *value == '1';
}

/* Each option is a variable as well: what the command line says counts. */
static void take_environment(struct options *o, const struct option *all)
{
    char name[64];

    take_limits(o);
    for (; all->name != NULL; all++) {
        char *value = environment(all->name, name);

        if (value == NULL || all->val >= OPT_LIMIT || all->val == 'h' ||
            all->val == 'V')
            continue;
        if (all->has_arg == no_argument && !is_yes(name, value))
            continue;
        if (all->val == 'l')
            add_listeners(o, value);
        else
            set_option(o, all->val, value);
    }
}

static void fill_limits(struct option *to)
{
    for (size_t i = 0; i < N_LIMITS; i++)
        to[i] = (struct option){
            limits[i].flag, required_argument, NULL, OPT_LIMIT + (int)i};
}

void options_take(struct options *o, int argc, char **argv)
{
    struct option all[16 + N_LIMITS] = {
        {"space", required_argument, NULL, 'S'},
        {"listen", required_argument, NULL, 'l'},
        {"space-mode", required_argument, NULL, OPT_SPACE_MODE},
        {"make-space", no_argument, NULL, OPT_MAKE},
        {"unix-mode", required_argument, NULL, OPT_MODE},
        {"unix-group", required_argument, NULL, OPT_GROUP},
        {"shared-ids", no_argument, NULL, OPT_SHARED},
        {"insecure", no_argument, NULL, OPT_INSECURE},
        {"verbose", no_argument, NULL, 'v'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
    };
    int option, n = 11;
    char from[64];

    fill_limits(all + n);
    *o = (struct options){.unix_mode = 0660};
    take_environment(o, all);
    o->listen_given = o->n_listen;
    opterr = 0; /* whatever it is, it is told in one line */
    while ((option = getopt_long(argc, argv, "S:l:vhV", all, NULL)) != -1) {
        if (option == '?')
            say_die(EX_USAGE,
                "unknown option \"%s\", or its value is missing: see "
                "enq-bridge --help",
                argv[optind - 1]);
        if (option < OPT_LIMIT) {
            set_option(o, option, optarg);
            continue;
        }
        snprintf(from, sizeof(from), "--%s", limits[option - OPT_LIMIT].flag);
        set_limit(o, &limits[option - OPT_LIMIT], optarg, from);
    }
    if (optind < argc)
        say_die(EX_USAGE, "unknown option \"%s\": see enq-bridge --help",
            argv[optind]);
}
