// npm.js - what a program does with enqueue-client, and what it is told.
// usage: NODE_PATH=... node npm.js PORT
'use strict';
const assert = require('assert');
const { spawn } = require('child_process');
const client = require('enqueue-client');

const port = process.argv[2];
client.setEnqueueServerConnection('127.0.0.1', port);

// The calls as promises: what the callback is given.
const call = (name) => (...args) => new Promise((done) =>
    client[name](...args, (...told) => done(told)));
const lock = call('lock');
const unlock = call('unlock');
const promote = call('promote');
const list = call('getLocksBy');
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

const computer = (owner, more) => ({ name: 'product', argument: ['Computer'],
    mode: 'E', owner, ...more });

async function taken(what) {
    const [id, rc, message] = await lock(what);
    assert.deepStrictEqual([rc, message], ['0', undefined]);
    return id;
}

async function refused(what, rc, message) {
    assert.deepStrictEqual((await lock(what)).slice(1), [rc, message]);
}

async function given_back(id) {
    assert.deepStrictEqual(await unlock(id), ['0', undefined]);
}

async function nothing_is_left() {
    assert.deepStrictEqual(await list(null, null), ['0', []]);
}

// Another process that asks for the same, and waits.
function another(what) {
    const code = `const c = require('enqueue-client');
        c.setEnqueueServerConnection('127.0.0.1', '${port}');
        c.lock(${JSON.stringify(what)}, (...told) => console.log(...told));`;
    return spawn(process.execPath, ['-e', code], { stdio: 'ignore' });
}

async function until_waiting(n) {
    for (let i = 0; i < 500; i++) {
        const [, locks] = await list(null, null);
        if (locks.filter((l) => l.state === 'waiting').length === n)
            return;
        await pause(10);
    }
    assert.fail(`never were ${n} waiting`);
}

const tests = {
    async a_lock_is_taken_refused_with_its_owner_and_given_back() {
        const id = await taken(computer('B'));
        assert.match(id, new RegExp(`^${process.pid}_[0-9]+$`));
        await refused(computer('A'), '1', 'B');
        await given_back(id);
        await given_back(await taken(computer('A')));
    },

    async a_wait_ends_with_the_lock() {
        const id = await taken(computer('B'));
        const waiting = taken(computer('A', { waitTime: 20000 }));
        await until_waiting(1);
        await given_back(id);
        await given_back(await waiting);
    },

    async a_wait_ends_in_vain() {
        const id = await taken(computer('B'));
        const begun = Date.now();
        await refused(computer('A', { waitTime: 150 }), '1', 'B');
        assert(Date.now() - begun >= 149);
        await given_back(id);
    },

    async a_lock_ends_with_its_timeout() {
        const id = await taken(computer('B', { timeout: 150 }));
        const other = await taken(computer('A', { waitTime: 20000 }));
        assert.deepStrictEqual(await unlock(id),
            ['4', 'The lock does not exist!']);
        await given_back(other);
    },

    async an_optimistic_lock_is_promoted_by_one() {
        const mine = await taken(computer('A', { mode: 'O' }));
        const other = await taken(computer('B', { mode: 'O' }));
        assert.deepStrictEqual(await promote(mine), ['0', undefined]);
        assert.strictEqual((await promote(other))[0], '2');
        await refused(computer('B', { mode: 'S' }), '1', 'A');
        await given_back(mine);
    },

    async a_short_list_is_filtered() {
        const id = await taken(computer('B', { argument: ['A', '@'] }));
        const other = await taken(computer('A', { name: 'order' }));
        const [rc, locks] = await list(null, 'B');
        assert.strictEqual(rc, '0');
        assert.strictEqual(locks.length, 1);
        const { uuid, name, argument, mode, owner, waitTime, timeout,
            timestamp } = locks[0];
        assert.deepStrictEqual(
            { uuid, name, argument, mode, owner, waitTime, timeout },
            { uuid: id, name: 'product', argument: 'A,@', mode: 'E',
                owner: 'B', waitTime: 0, timeout: 900000 });
        assert.match(timestamp, /^\d+\/\d+\/\d{4}, \d+:\d\d:\d\d [AP]M$/);
        assert.strictEqual((await list('order', null))[1][0].uuid, other);
        assert.strictEqual((await list('order', 'A'))[1].length, 1);
        assert.strictEqual((await list('order', 'B'))[1].length, 0);
        assert.strictEqual((await list('', ''))[1].length, 2);
        await given_back(id);
        await given_back(other);
    },

    async a_list_beyond_64_KiB_is_whole() {
        const ids = [];
        for (let i = 0; i < 20; i++)
            ids.push(...await Promise.all([...Array(50).keys()].map((n) =>
                taken(computer('B', { argument: [`field ${i} ${n} é€😀`] })))));
        const [rc, locks] = await list('product', null);
        assert.strictEqual(rc, '0');
        assert.deepStrictEqual(locks.map((l) => l.uuid).sort(), ids.sort());
        assert(JSON.stringify(locks).length > 3 * 65536);
        assert(locks.every((l) => l.argument.endsWith('é€😀')));
        for (const id of ids)
            await given_back(id);
    },

    async errors_have_the_words_of_enqueue_server() {
        await refused({ name: 'product', argument: 'Computer', mode: 'E',
            owner: 'B' }, '4', 'Lock argument must be array!');
        await refused(computer('B', { timeout: -1 }), '4', 'Invalid timeout');
        assert.deepStrictEqual(await unlock('nobodys'),
            ['4', 'The lock does not exist!']);
        assert.strictEqual((await promote('nobodys'))[0], '2');
        const [, rc] = await lock(computer('B', { mode: 'Z' }));
        assert.strictEqual(rc, '4');
    },

    async fifty_clients_at_once_have_one_lock_in_turn() {
        let holders = 0;
        let turns = 0;
        await Promise.all([...Array(50).keys()].map(async (n) => {
            for (let i = 0; i < 5; i++) {
                const id = await taken(computer(`C${n}`, { waitTime: 60000 }));
                assert.strictEqual(++holders, 1);
                await pause(1);
                holders--;
                turns++;
                await given_back(id);
            }
        }));
        assert.strictEqual(turns, 250);
    },

    async a_lock_is_not_granted_to_who_was_killed_while_he_waited() {
        const id = await taken(computer('B'));
        const other = another(computer('A', { waitTime: 60000 }));
        await until_waiting(1);
        other.kill('SIGKILL');
        await until_waiting(0);
        await given_back(id);
    },

    async a_request_that_waits_is_cancelled_by_its_id() {
        const id = await taken(computer('B'));
        const waiting = lock(computer('A', { waitTime: 60000 }));
        await until_waiting(1);
        const [, locks] = await list(null, 'A');
        await given_back(locks[0].uuid);
        assert.deepStrictEqual((await waiting).slice(1),
            ['4', 'Lock request cancelled']);
        await given_back(id);
    },
};

async function main() {
    let passed = 0;
    let failed = 0;
    for (const [name, test] of Object.entries(tests)) {
        try {
            await Promise.race([test().then(nothing_is_left),
                pause(20000).then(() => assert.fail('it does not end'))]);
            passed++;
            console.log(`ok      ${name}`);
        } catch (fault) {
            failed++;
            console.log(`FAILED  ${name}\n${fault.stack}`);
        }
    }
    console.log(`npm: ${passed} passed, ${failed} failed, 0 skipped`);
    process.exit(failed === 0 ? 0 : 1);
}

main();
