/*
 * enq.h - enqueue locks in shared memory: the public interface of libenq.
 *
 *	struct enq *e;
 *	struct enq_grant g;
 *
 *	if (enq_open(&e, NULL, NULL) != ENQ_OK)
 *		errx(1, "%s", enq_why());
 *	int rc = enq_lock(e, ENQ_REQ(.name = "product", .key = {"Computer"},
 *	                             .mode = ENQ_MODE_E, .owner = "B"), &g);
 *	if (rc == ENQ_OK) { ...; enq_unlock(e, g.handle, g.token); }
 *	else if (rc == ENQ_BUSY) printf("locked by %s\n", g.blocker.owner);
 *	enq_close(e);
 *
 * A request names an object and a key of several fields, one of four modes,
 * and an owner: a string of yours (a user, a transaction). Locks belong to
 * owners, not to threads. The process that asked only decides what happens
 * when it dies (enum enq_death).
 *
 * Threads: any number of threads may use an attachment at once, except for
 * enq_close(), which must be the last call. A thread's first call in a space
 * registers the thread there, which may fail: -EAGAIN (too many threads),
 * -ENOMEM, -ENOSPC, -EBADF (our descriptor was closed), -ENOLCK, -EPERM (the
 * kernel would not notice its death). No call is a cancellation point, except
 * for the pause between retries; a thread that is cancelled while it waits goes
 * on waiting. Fork: an attachment is not usable in a child (ENQ_EFORKED); the
 * child opens its own. Signal handlers must not call any function of this
 * header, nor jump out of a call (longjmp).
 *
 * A process may also end, exec, unload the library or close our descriptor at
 * any time. exec ends the session; an exec that fails ends nothing. daemon() is
 * a fork: open after it. After vfork() or clone(CLONE_VM) a child may only exec
 * or _exit. When a thread ends, even the main thread, the process keeps its
 * locks. libenq.so stays loaded after dlclose(); link a module that contains
 * libenq.a with -z nodelete. After setuid, chroot or unshare an attachment
 * still works; opening another may fail. If our descriptor is closed, held
 * locks stay held, but no new thread can register and the table cannot grow
 * (-EBADF). A process that dumps core dies when the core is written. No seccomp
 * filter may kill single threads (SECCOMP_RET_KILL_THREAD).
 *
 * Plain functions, no callbacks, no struct by value, no varargs: cheap to
 * call from Python, Node or Go. See enq_lock_spec() for a one-string form.
 */
#ifndef ENQ_H
#define ENQ_H

#include "enq_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ENQ_API __attribute__((visibility("default")))

/* The version of this header; enq_version() is the version of the library. */
#define ENQ_VERSION_MAJOR 0
#define ENQ_VERSION_MINOR 1
#define ENQ_VERSION_PATCH 0

/* Life of an attachment --------------------------------------------------- */

/*
 * enq_open - attach this process to a lock space, creating it if need be.
 *
 * @out      set on ENQ_OK only; the caller owns it and ends it by enq_close().
 * @address  NULL = $ENQ_SPACE or "shm:enq"; "shm:NAME" (1..200 bytes of
 *           A-Z a-z 0-9 . _ -, not starting with a dot); an absolute path on
 *           a tmpfs, without a '?'; both followed by "?owner=USER" if the
 *           space is another user's; or a space that an enq-bridge serves:
 *           "tcp://HOST", "tcp://HOST:PORT" (3721), "unix:/PATH", each
 *           optionally followed by "?grace=MS". ("tls://": -EOPNOTSUPP.)
 * @opts     NULL for all defaults. An existing space is not changed. Options
 *           that are not 0 or NULL are compared with it, and enq_why() names
 *           the difference (ENQ_EDIFFERS): compat and strict must be equal,
 *           there must be at least as many slots, and the mode must not admit
 *           anyone whom the requested one would keep out (not compared with a
 *           bridge's space).
 *
 * Returns: ENQ_OK.
 * Faults:  -EINVAL, -E2BIG (options of a newer header), -ENOENT, -EACCES,
 *          -EPERM, -EROFS, -ENOSPC, -ENOMEM, -EFBIG, -ENFILE, -EMFILE, -EAGAIN
 *          (more than 8,192 attachments or 16,384 threads, of which each
 *          process has one of its own, or more than 1,000 attachments of one
 *          process), -ELOOP, -EISDIR, -ENXIO and other faults of open(2), -EIO,
 *          -EBADF, -ENOLCK; -EPERM also where the kernel would not notice our
 *          death (set_robust_list refused by a seccomp filter; a child of a
 *          bare clone()); -EBUSY: another copy of this library in the process
 *          (libenq.a in the program, libenq.so in a module) uses the space;
 *          ENQ_EDIFFERS, ENQ_EVERSION, ENQ_ECORRUPT, ENQ_ENAMESPACE. enq_why()
 *          says what is wrong with what.
 * Blocks:  at most while a segment is being created (a few ms).
 * Threads: the first attachment starts the library's only helper thread in
 *          this process (asleep until needed; all signals are blocked but
 *          SIGBUS, SIGSEGV and the like, which its own faults raise).
 *
 * Ownership. A user who can write to a space can harm its users, and anyone can
 * create a file of any name in /dev/shm. So a space is opened only if its file
 * belongs to us, to root, or to the user that the caller names, or if only root
 * can write to its directory. Any other is refused with -EACCES, even for root
 * and even read-only: its contents cannot be trusted. To share a space
 * with a group, one user creates it with .mode = 0660, and all others name that
 * user: "shm:NAME?owner=USER" (a name or a number), or .space_owner. Only the
 * named user creates the space; until then others get -ENOENT.
 *
 * Through a bridge, calls and results are the same, except:
 * - The attachment is a session of the bridge. It outlives a lost connection by
 *   its grace period (opts.grace_ms, 10 s by default; the bridge may limit
 *   it), while our thread reconnects. Requests without an answer are sent
 *   again, and carried out once. After a longer absence its RELEASE locks are
 *   lost: ENQ_EVENT_LOST with ENQ_OWNERDIED. ENQ_EVENT_SESSION reports each
 *   connection.
 * - We measure the same period (CLOCK_BOOTTIME: a suspend counts, a step of the
 *   wall clock does not). Once it has passed, less a hundredth, since the last
 *   answered request was sent, RELEASE locks may have gone to another. They are
 *   suspect then: enq_valid() returns ENQ_ELEASE, and one ENQ_EVENT_SESSION
 *   reports it. If the session turns out to be alive, each is ours again as
 *   soon as the bridge confirms it. LEASE and KEEP locks end by their own ttl.
 *   While the connection works nothing becomes suspect: our thread asks the
 *   bridge at least four times in a grace period.
 * - Any call may fail with -ENOTCONN or -ETIMEDOUT: there was no connection, or
 *   no answer, until 5 s after its own wait (60 s for calls that look at the
 *   table). A lock that is granted later is given back. With ENQ_FOREVER a call
 *   waits as long as it takes. -EMSGSIZE: more than the bridge accepts or lists
 *   at once.
 * - enq_valid() does not ask the bridge about a lock of this attachment: it
 *   relies on what the bridge has reported, and on our clock. What others do (a
 *   break, a promotion) it learns a moment later, or after reconnecting. It
 *   asks where only the bridge can know: with a grace period below 100 ms, and
 *   when the ttl of a lock that had to wait may have ended, as we cannot know
 *   when it began; without a connection the result is ENQ_ELEASE.
 * - Names, keys, owners and ids are UTF-8 (-EILSEQ). enq_req.peer is set by the
 *   bridge, and the pid in a list is the bridge's.
 * - enq_inherit(), enq_orphans(), enq_abandon(), enq_adopt_for(), enq_look(),
 *   enq_dump(), ENQ_DOCTOR_FIX and enq_unlink() work on the space's own host
 *   only: -EOPNOTSUPP.
 * - Opening fails with -ECONNREFUSED, -ENOENT (no such socket), -EHOSTUNREACH,
 *   -ETIMEDOUT, -EPROTO (not a bridge), and others of connect(2). Each
 *   attachment has a thread and three descriptors of its own. A child of a bare
 *   clone() keeps the connection of a parent that dies.
 */
ENQ_API int enq_open(struct enq **out, const char *address,
    const struct enq_open_opts *opts);

/*
 * enq_close - end the attachment: RELEASE locks are released, its waiting
 * requests cancelled; LEASE and KEEP locks stay. NULL is fine. In a child of
 * the opener only the child's memory is freed.
 */
ENQ_API void enq_close(struct enq *e);

/*
 * enq_unlink - remove the name of a space. Attached processes get ENQ_EGONE for
 * new requests; unlock and list go on working.
 *
 * Returns: ENQ_OK. Faults: -ENOENT, -EACCES, -EPERM, -EINVAL (also for a file
 *          that is no lock space), -ENOMEM and others of unlink(2).
 */
ENQ_API int enq_unlink(const char *address);

/* Locks ------------------------------------------------------------------- */

/*
 * enq_lock - ask for a lock, waiting for it if asked to.
 *
 * @req    copied; see struct enq_req. ENQ_TEST answers what would happen
 *         and leaves no trace.
 * @grant  handle and token on ENQ_OK; the blocker on BUSY, TIMEDOUT, EXISTS.
 *         May be NULL when the answer alone is wanted together with ENQ_TEST.
 *
 * Returns: ENQ_OK, ENQ_BUSY (wait_ms 0), ENQ_TIMEDOUT, ENQ_EXISTS,
 *          ENQ_CANCELLED (somebody unlocked or broke the waiting request),
 *          ENQ_DEADLOCK (the wait would close a cycle of owners, which
 *          enq_why() names; not checked with ENQ_NO_DEADLOCK).
 * Faults:  -EINVAL, -ENAMETOOLONG (a field over its limit), -E2BIG, -EROFS
 *          (read-only attachment), ENQ_EFULL, ENQ_EFORKED, ENQ_EGONE,
 *          ENQ_ECORRUPT; when the table must grow, -ENOSPC, -ENOMEM, -EBADF;
 *          in a thread's first call also those named above under Threads.
 * Blocks:  up to wait_ms, never less; never for another process's death.
 * Source:  enqueue-server's lock; SEMANTICS R1-R14.
 */
ENQ_API int enq_lock(struct enq *e, const struct enq_req *req,
    struct enq_grant *grant);

/*
 * enq_lock_spec - enq_lock() for other languages: one string, no structs.
 *
 * @spec  "product/Computer/@": name and fields, separated by '/'. A '\'
 *        takes the next byte literally: "\/" a slash, "\\" a backslash,
 *        "\@" as a whole field a literal "@". But "\x" and two hexadecimal
 *        digits are the byte of that number, not zero. "product/" has one,
 *        empty, field; "product" has none.
 * @mode  "S", "E", "X" or "O".
 * @owner, @wait_ms, @ttl_ms as in struct enq_req.
 */
ENQ_API int enq_lock_spec(struct enq *e, const char *spec, const char *mode,
    const char *owner, int64_t wait_ms, int64_t ttl_ms,
    struct enq_grant *grant);

/*
 * enq_spec_parse - the same spec form into a request of your own.
 *
 * @req   name, key and literal are set; they point into @buf.
 * @buf   ENQ_NAME_BYTES + ENQ_KEY_BYTES bytes are always enough.
 *
 * Returns: ENQ_OK. Faults: -EINVAL, -ENAMETOOLONG.
 */
ENQ_API int enq_spec_parse(const char *spec, struct enq_req *req, char *buf,
    size_t n);

/*
 * enq_unlock - release a lock, or cancel a waiting request (its waiter then
 * gets ENQ_CANCELLED). Any attachment to the space may do so.
 *
 * @token  0 = any; else the lock is released only if it still has this token.
 *
 * Returns: ENQ_OK; ENQ_NOTHELD (never held, unlocked before, other token),
 *          ENQ_EXPIRED, ENQ_LOST, ENQ_FORCED, ENQ_OWNERDIED: why it is gone;
 *          ENQ_CANCELLED: it was cancelled while it waited.
 * Faults:  ENQ_EFORKED, ENQ_ECORRUPT, -EROFS.
 * Blocks:  never.
 */
ENQ_API int enq_unlock(struct enq *e, enq_handle handle, uint64_t token);

/*
 * enq_promote - turn a granted optimistic lock into an exclusive one (E). If
 * several try, one wins, and all other granted O locks that overlap are lost to
 * it, those of the same owner too. Never waits.
 *
 * @grant  the new token on ENQ_OK; the blocker on ENQ_REFUSED and ENQ_LOST.
 *         May be NULL.
 *
 * Returns: ENQ_OK; ENQ_REFUSED (not a granted O, or a conflicting lock
 *          overlaps); as enq_unlock() when it is gone.
 */
ENQ_API int enq_promote(struct enq *e, enq_handle handle, uint64_t token,
    struct enq_grant *grant);

/* enq_demote - turn a granted E or X into S; grants the waiters that can go.
   Returns: ENQ_OK, ENQ_REFUSED (not a granted E or X), as enq_unlock(). */
ENQ_API int enq_demote(struct enq *e, enq_handle handle, uint64_t token);

/*
 * enq_renew - restart the ttl: it counts from now.
 *
 * @ttl_ms  0 = the lock's own ttl as asked for; ENQ_FOREVER = none.
 *
 * Returns: ENQ_OK; as enq_unlock() when it is gone: an expired lock is never
 *          revived. ENQ_REFUSED while the request waits.
 */
ENQ_API int enq_renew(struct enq *e, enq_handle handle, uint64_t token,
    int64_t ttl_ms);

/*
 * enq_valid - is this lock still ours? Cheap enough for every write (2 ns): it
 * reads the lock's entry, but no clock, and takes no latch.
 *
 * Returns: ENQ_OK; as enq_unlock() when it is gone; ENQ_ELEASE: through a
 *          bridge, another may have it (see enq_open()). A lock that another
 *          has got is noticed at once, the end of its ttl within a few ms (the
 *          helper thread watches the time; within a second after a suspend, or
 *          if another attachment shortened the ttl).
 * Blocks:  never. Threads: any.
 */
ENQ_API int enq_valid(struct enq *e, enq_handle handle);

/*
 * enq_find - from an id (or the text of a derived uuid) to a handle.
 *
 * Returns: ENQ_OK; as enq_unlock() when it is gone and its entry not yet used
 *          again (an id that a caller chose: always ENQ_NOTHELD). Faults:
 *          -EINVAL, -ENAMETOOLONG.
 */
ENQ_API int enq_find(struct enq *e, const char *id, enq_handle *handle);

/* enq_id - from a handle to its id, as text: ENQ_ID_BYTES bytes at @id.
   Returns: ENQ_OK, ENQ_NOTHELD. */
ENQ_API int enq_id(struct enq *e, enq_handle handle, char *id);

/* enq_look - what enq_list() reports of one lock, by its handle.
   Returns: ENQ_OK, ENQ_NOTHELD. Faults: -EINVAL, -EOPNOTSUPP. */
ENQ_API int enq_look(struct enq *e, enq_handle handle, struct enq_info *out);

/*
 * enq_adopt - take over a KEEP or LEASE lock whose process is gone. It keeps
 * id, owner and key, gets a new token, its ttl starts again, and from now on it
 * belongs to this session, without a peer.
 *
 * @grant  its new token, and in blocker.mode its mode (not set by a bridge).
 *
 * Returns: ENQ_OK, ENQ_REFUSED (its session is alive, or the request waits); as
 *          enq_find() when it is gone.
 */
ENQ_API int enq_adopt(struct enq *e, const char *id, struct enq_grant *grant);

/* enq_adopt_for - the same on behalf of somebody else, identified by the number
   @heir, 1 to 2^63 - 1 (or -EINVAL), as enq_req.peer identifies one by a name:
   a process that knows it can inherit the lock when this one is gone. It is in
   lists, so no secret. It ends when the lock is adopted again or abandoned. */
ENQ_API int enq_adopt_for(struct enq *e, const char *id, uint64_t heir,
    struct enq_grant *grant);

/*
 * enq_inherit - succeed a dead process that held locks for others
 * (enq_req.peer, enq_adopt_for): take over up to n of its held locks. Unlike
 * with enq_adopt(), nothing changes for those whom the locks are held for: id,
 * owner, token, ttl and handle stay; but their process is this one from now on:
 * it gets their events, and its death ends them. Call again until *got is 0.
 *
 * @out  room for n locks, as enq_list() reports them after the takeover.
 * @got  how many; always set.
 *
 * A LEASE lock ends when it would have ended. So does a KEEP lock, unless the
 * death had ended its ttl (enum enq_death) or it was renewed for ever: then its
 * own ttl starts again. Heartbeats stop. Locks without a peer or heir, those
 * that were abandoned, and waiting requests are left alone. Several processes
 * may call at once: each lock goes to one of them.
 *
 * Returns: ENQ_OK. Faults: -EINVAL (no room), -EROFS, ENQ_EFORKED,
 *          ENQ_ECORRUPT: *got locks were taken over nevertheless.
 * Blocks:  never. Walks the table without stopping it.
 */
ENQ_API int enq_inherit(struct enq *e, struct enq_info *out, size_t n,
    size_t *got);

/*
 * enq_inherit_lock - the same for one lock, by its handle: first come.
 *
 * @heir  its heir, as reported by enq_orphans(); 0: it has a peer.
 * @out   the lock, as in enq_inherit().
 *
 * Returns: ENQ_OK; ENQ_REFUSED (its holder is alive, has abandoned it, or held
 *          it for itself or another heir); as enq_unlock() when it is gone.
 * Faults and blocking: as enq_unlock(); -EINVAL (no room).
 */
ENQ_API int enq_inherit_lock(struct enq *e, enq_handle handle, uint64_t heir,
    struct enq_info *out);

/*
 * enq_orphans - list the locks that could be inherited. For processes that
 * share the work of one that is gone, and call this every so often: if nothing
 * was left behind since the last call, it costs next to nothing.
 *
 * @at   where the walk is: 0 before the first call, then as it was left.
 * @out  room for n, at least ENQ_ORPHANS_LEAST.
 * @got  how many are in @out.
 *
 * A lock may have been inherited, or have ended, by the time it is listed, and
 * the next walk may list it again. `holder` is the same for all that one
 * process has left behind, and another once an heir of it is gone as well.
 *
 * Returns: ENQ_OK: that was all; the next call begins anew.
 *          ENQ_PENDING: there may be more: call again.
 * Faults:  -EINVAL (no room), -EROFS, ENQ_EFORKED.
 * Blocks:  never: a call reads about a thousand pages of the table at most.
 */
ENQ_API int enq_orphans(struct enq *e, uint64_t *at, struct enq_orphan *out,
    size_t n, size_t *got);

/*
 * enq_abandon - leave a LEASE or KEEP lock of ours behind without releasing it:
 * from now on it is an orphan, as if this process had died, but enq_inherit()
 * passes over it. It stays until its ttl ends (LEASE), or until somebody adopts
 * or breaks it (KEEP).
 *
 * @token  as in enq_unlock().
 *
 * Returns: ENQ_OK, ENQ_REFUSED (a RELEASE lock, another attachment's, or one
 *          that waits); otherwise as enq_unlock().
 */
ENQ_API int enq_abandon(struct enq *e, enq_handle handle, uint64_t token);

/* enq_break - for operators: remove a lock or waiting request, whatever its
   state. Its holder learns of it as ENQ_FORCED. Returns: as enq_find(). */
ENQ_API int enq_break(struct enq *e, const char *id);

/*
 * enq_check - for a third party that was given a token: is the lock that it
 * belongs to held now? (Remembering the highest token seen needs no table.)
 *
 * @key    the lock's own: up to ENQ_KEY_FIELDS_MAX fields, ended by NULL,
 *         behind which nothing is read; NULL: none. "@" is generic here as
 *         well.
 *
 * Returns: ENQ_OK: it is; ENQ_LOST: it is not, but one with a newer token is
 *          held on this key; ENQ_NOTHELD: neither.
 * Faults:  -EINVAL, -ENAMETOOLONG, -EROFS, ENQ_EFORKED, ENQ_ECORRUPT.
 * Blocks:  never. Source: fencing tokens (SEMANTICS, Fencing).
 */
ENQ_API int enq_check(struct enq *e, const char *name, const char *const *key,
    uint64_t token);

/*
 * enq_with - a critical section: takes the lock as enq_lock() would, runs
 * fn(arg, grant) in this thread, and releases.
 *
 * @fn_result  what fn returned; set if it ran. May be NULL.
 * @n_retries  how many attempts were made after the first. May be NULL.
 *
 * Returns: ENQ_OK: fn has run, and the lock was ours to the end; as enq_lock()
 *          if it was not granted: fn has not run; as enq_unlock() if it was
 *          gone at the end: fn has run, perhaps beside another holder. If fn
 *          does not return (longjmp, cancellation), the lock stays held.
 * Blocks:  as enq_lock(), and as fn. Source: redis-exp-lock.
 */
ENQ_API int enq_with(struct enq *e, const struct enq_req *req,
    int (*fn)(void *arg, const struct enq_grant *grant), void *arg,
    int *fn_result, uint32_t *n_retries);

/* Lock sets --------------------------------------------------------------- */

/*
 * enq_lock_set - ask for several locks as one: all are granted in one step, or
 * none is. A set that waits is one waiter, queued for each of its keys by the
 * time of its arrival; no later request overtakes it at any of them. Cancelling
 * or breaking one of its waiting locks cancels or breaks the set.
 *
 * @reqs    n of them, 1..ENQ_SET_MAX; of one owner, and with the same wait_ms,
 *          flags, retries and retry_ms; the other fields may differ. No two may
 *          conflict: they could never be held together.
 * @grants  n of them. On ENQ_OK each has its handle and token; on BUSY,
 *          TIMEDOUT, DEADLOCK and EXISTS the blocker is in the grant of the
 *          lock that was refused; elsewhere owner[0] is 0. NULL as in
 *          enq_lock().
 *
 * Returns, faults, blocking: as enq_lock(). -EINVAL if two locks of the set
 *          conflict. Once granted, each is a lock like any other.
 * Death:   if the process dies in the middle of the call, all are held or none
 *          is; so it is for those that outlive the process (LEASE, KEEP).
 * Source:  SAP's lock objects over several tables; SEMANTICS, Sets.
 */
ENQ_API int enq_lock_set(struct enq *e, const struct enq_req *const *reqs,
    size_t n, struct enq_grant *grants);

/*
 * enq_unlock_set - release all of these locks, from one set or not. A lock that
 * is gone does not stop the release of the others.
 *
 * @grants  handle and token of each; a handle of 0 is skipped.
 *
 * Returns: ENQ_OK for all; else the first other result, as of enq_unlock().
 */
ENQ_API int enq_unlock_set(struct enq *e, const struct enq_grant *grants,
    size_t n);

/* Without blocking -------------------------------------------------------- */

/*
 * enq_start - ask for a lock without waiting in the call.
 *
 * Like enq_lock(), but a request that has to wait (wait_ms not 0) waits in the
 * background. Thousands may be pending: one helper thread serves them all.
 *
 * @req     copied. No retries: -EINVAL.
 * @grant   on ENQ_OK; the blocker of a refusal, and of ENQ_PENDING.
 * @ticket  names the request; set on ENQ_PENDING, else 0.
 *
 * Returns: ENQ_OK: granted at once, no event follows. ENQ_PENDING: exactly one
 *          ENQ_EVENT_RESULT with this ticket follows, with what enq_lock()
 *          would have returned. Otherwise as enq_lock() with wait_ms 0.
 * Faults:  as enq_lock(); -EAGAIN: a million are pending or have results that
 *          were not read. (Their memory is freed by enq_close().)
 * Blocks:  never. Threads: any; safe beside enq_next() and enq_cancel().
 */
ENQ_API int enq_start(struct enq *e, const struct enq_req *req,
    struct enq_grant *grant, uint64_t *ticket);

/*
 * enq_start_set - enq_lock_set() without waiting in the call.
 *
 * @grants  n of them. On ENQ_PENDING they must stay valid until the result has
 *          been taken, or until enq_close(): enq_next() fills them, in the
 *          thread that takes the result.
 *
 * Otherwise as enq_start().
 */
ENQ_API int enq_start_set(struct enq *e, const struct enq_req *const *reqs,
    size_t n, struct enq_grant *grants, uint64_t *ticket);

/*
 * enq_cancel - cancel a pending request.
 *
 * Returns: ENQ_OK: its event comes with ENQ_CANCELLED. ENQ_NOTHELD: it is not
 *          pending; if it was granted just before, its event says so.
 * Blocks:  never.
 */
ENQ_API int enq_cancel(struct enq *e, uint64_t ticket);

/*
 * enq_fd - a descriptor that is readable while there are events, for epoll and
 * the like. From the first call on, the locks that are held have events, too.
 *
 * Returns: the descriptor, always the same; do not read, write or close it.
 *          Faults: -EMFILE, -ENFILE, -ENOMEM, -EROFS, ENQ_EFORKED.
 */
ENQ_API int enq_fd(struct enq *e);

/*
 * enq_life_fd - a descriptor by which other processes keep our locks.
 *
 * Once this was called, the session outlives this process as long as a copy of
 * the descriptor is open elsewhere: RELEASE locks are released when the last
 * copy is closed, be it by exit, by kill -9 or by close(). It is for programs
 * that take a lock for their children's work, as flock(1) does: let the child
 * clear FD_CLOEXEC between fork() and exec(). Waiting requests end with this
 * process all the same, and enq_close() ends everything, even if others have
 * copies. A waiter notices the end of such a lock within 40 ms.
 *
 * Returns: the descriptor, always the same, close-on-exec; it has no other use.
 *          Do not close it here. Faults: -EROFS, ENQ_EFORKED, -EOPNOTSUPP
 *          (through a bridge), -ESTALE (the space was removed), -ENOLCK, and
 *          others of open(2).
 */
ENQ_API int enq_life_fd(struct enq *e);

/*
 * enq_next - the next event; those of one lock come in the order in which they
 * happened.
 *
 * No event is lost: enq_start() sets the memory for its result aside. At most
 * 4,096 events of held locks are queued; the rest stays in the table with its
 * entries, until events have been taken, or a full table needs the room. What a
 * call has already returned (ENQ_EXPIRED from enq_unlock()) is no event.
 *
 * Returns: ENQ_OK; ENQ_PENDING: there is none yet. Faults: -EINVAL, -EROFS,
 *          ENQ_EFORKED.
 * Blocks:  never. Threads: any; each event goes to one.
 */
ENQ_API int enq_next(struct enq *e, struct enq_event *event);

/* Looking at the table ---------------------------------------------------- */

/*
 * enq_list - holders first, then waiters, each by arrival.
 *
 * @name, @owner  exact; NULL or "" = all. Too long for any lock: -ENAMETOOLONG.
 * @out, @n       room for n entries; NULL and 0 to count only.
 * @total         how many matched; may be more than n. May be NULL.
 *
 * Returns: ENQ_OK. Faults: -ENAMETOOLONG, -ENOMEM, ENQ_EFORKED, ENQ_ECORRUPT.
 * Blocks:  does not stop the table. Each entry is consistent in itself; with a
 *          @name (and a writable attachment) the list is a snapshot of that
 *          name, and requests for it wait only at its end.
 */
ENQ_API int enq_list(struct enq *e, const char *name, const char *owner,
    struct enq_info *out, size_t n, size_t *total);

/*
 * enq_graph - who waits for whom: an edge for each waiting request and each
 * lock or earlier request of another owner in its way. @out, @n, @total as in
 * enq_list().
 *
 * Returns: ENQ_OK. Faults: -EINVAL, -ENOMEM, -EROFS, ENQ_EFORKED, ENQ_ECORRUPT.
 * Blocks:  does not stop the table: the edges of one request are a snapshot,
 *          those of two are not, and a cycle seen here may be gone by now.
 */
ENQ_API int enq_graph(struct enq *e, struct enq_edge *out, size_t n,
    size_t *total);

/*
 * enq_stat - counters and sizes. Walks the table without stopping it.
 *
 * @out  the caller sets its size; what only a newer header has is zeroed.
 *
 * Returns: ENQ_OK. Faults: -EINVAL, ENQ_EFORKED.
 */
ENQ_API int enq_stat(struct enq *e, struct enq_stats *out);

/*
 * enq_doctor - recompute whatever is derived from other data and compare;
 * report dead sessions, and a segment that was unlinked or is nearly full.
 *
 * @report  text, a line per finding, always ended by a zero.
 *
 * Returns: the number of findings (0 = healthy). Faults: ENQ_ECORRUPT
 *          (with its findings in @report), ENQ_EFORKED.
 * Blocks:  each part of the table for some ms at most.
 */
ENQ_API int enq_doctor(struct enq *e, uint32_t flags, char *report, size_t n);

/* enq_dump - the segment in readable form, for a bug report, written to a
   descriptor. Returns: ENQ_OK. Faults: of write(2). */
ENQ_API int enq_dump(struct enq *e, int fd);

/* Texts ------------------------------------------------------------------- */

ENQ_API int enq_version(void); /* major * 10000 + minor * 100 + patch */
ENQ_API const char *enq_strerror(int result);    /* never NULL */
ENQ_API const char *enq_result_name(int result); /* never NULL */

/*
 * enq_why - what exactly went wrong in this thread's last call that did not
 * return ENQ_OK: a sentence that says what is wrong and what to do. Never NULL,
 * without a newline; valid until this thread's next call.
 */
ENQ_API const char *enq_why(void);

#ifdef __cplusplus
}
#endif
#endif /* ENQ_H */
