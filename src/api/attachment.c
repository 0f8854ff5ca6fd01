/*
 * attachment.c - api: which threads may enter an attachment.
 */
#include "api/attachment.h"

#include "remote/open.h"

const char *attachment_name(const struct enq *e)
{
    return e->remote != NULL ? remote_name(e->remote) : e->path;
}

int attachment_refuse_look(const struct enq *e)
{
    if (e == NULL)
        return why(-EINVAL, "the attachment is NULL");
    if (e->remote != NULL && remote_is_ours(e->remote))
        return ATTACHMENT_REMOTE;
    return why(ENQ_EFORKED,
        "the parent of this process opened the attachment to %s: open another "
        "one in this process",
        attachment_name(e));
}

int attachment_refuse(const struct enq *e)
{
    bool remote = e != NULL && e->remote != NULL;

    if (e == NULL ||
        (remote ? !remote_is_ours(e->remote) : !process_is(e->life)))
        return attachment_refuse_look(e);
    if (remote && !e->readonly)
        return ATTACHMENT_REMOTE;
    return why(-EROFS, "the attachment to %s is read-only", attachment_name(e));
}
