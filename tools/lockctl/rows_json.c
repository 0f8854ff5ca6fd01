/*
 * rows_json.c - rows as JSON.
 */
#include "json.h"
#include "key.h"
#include "peer.h"
#include "rows.h"
#include "system.h"
#include "text.h"

const char *row_state(const struct enq_info *info)
{
    if (info->waiting)
        return "waiting";
    if (info->dying)
        return "dying";
    return info->orphaned ? "orphaned" : "held";
}

char row_mode(const struct enq_info *info)
{
    return info->mode >= ENQ_MODE_S && info->mode <= ENQ_MODE_O
        ? "?SEXO"[info->mode]
        : '?';
}

static void put_object(const struct enq_info *info)
{
    char spec[KEY_SPEC_BYTES];
    struct key key;

    key_of_info(&key, info);
    json_key_string("object", info->name);
    json_key("argument");
    json_open('[');
    for (unsigned i = 0; i < key.n; i++)
        json_string(key.field[i]);
    json_close(']');
    key_spec(spec, &key);
    json_key_string("spec", spec);
}

static void json_key_text(const char *key, const char *text)
{
    json_key(key);
    if (text[0] != '\0')
        json_string(text);
    else
        json_null();
}

static void put_process(const struct enq_info *info)
{
    char command[SYSTEM_COMMAND_BYTES];
    struct peer peer;

    json_key_number("pid", info->pid);
    peer_read(&peer, info);
    json_key_text("peer", peer.host);
    json_key_text("session", peer.session);
    json_key("command");
    if (info->pid > 0 && system_command(info->pid, command))
        json_string(command);
    else
        json_null();
}

static void put_times(const struct enq_info *info)
{
    char at[40];

    json_key("granted_at");
    text_wall_clock(at, sizeof(at), info->granted_ms);
    if (info->waiting)
        json_null();
    else
        json_string(at);
    json_key_number("age_ms", info->age_ms);
    json_key_ttl("ttl_ms", info->ttl_ms);
    json_key_ttl("ttl_left_ms", info->ttl_left_ms);
}

static const char *death_word(uint8_t on_death)
{
    static const char *const words[] = {"release", "lease", "keep"};

    return on_death <= ENQ_DEATH_KEEP ? words[on_death] : "unknown";
}

static void put_members(const struct enq_info *info)
{
    char mode[] = {row_mode(info), '\0'};

    json_key_string("id", info->id);
    put_object(info);
    json_key_string("mode", mode);
    json_key_string("owner", info->owner);
    json_key_token("token", info->token);
    json_key_string("state", row_state(info));
    put_process(info);
    put_times(info);
    json_key_string("on_death", death_word(info->on_death));
}

void rows_json_info(const struct enq_info *info)
{
    json_open('{');
    put_members(info);
    json_close('}');
}

void rows_json_row(const struct row *row)
{
    json_open('{');
    put_members(row->info);
    json_key("waiters");
    json_open('[');
    for (row = row->first_waiter; row != NULL; row = row->next_waiter)
        rows_json_info(row->info);
    json_close(']');
    json_close('}');
}

void rows_json(struct row *const *top, size_t n)
{
    json_key("locks");
    json_open('[');
    for (size_t i = 0; i < n; i++) {
        json_break();
        rows_json_row(top[i]);
    }
    json_close(']');
}
