// npm.js - pairs by npm's enqueue-client, so many clients at once. Each line of
// its input is a number of pairs, and answered when they are made.
// usage: node npm.js PORT CLIENTS
'use strict';
const client = require('enqueue-client');
const [port, clients] = process.argv.slice(2);

client.setEnqueueServerConnection('127.0.0.1', port);

function good(what, rc, message) {
    if (rc === '0')
        return;
    process.stdout.write(`${what}: RC ${rc} ${message}\n`);
    process.exit(1);
}

function pair(field, done) {
    const lock = { name: 'product', argument: ['Computer', field], mode: 'E',
        owner: 'worker 0' };

    client.lock(lock, (id, rc, message) => {
        good('lock', rc, message);
        client.unlock(id, (rc, message) => {
            good('unlock', rc, message);
            done();
        });
    });
}

function run(n) {
    let begun = 0, ended = 0;
    const next = (field) => {
        if (begun++ < n)
            pair(field, () => {
                next(field);
                if (++ended === n)
                    process.stdout.write('done\n');
            });
    };

    for (let i = 0; i < clients; i++)
        next(`npm ${i}`);
}

let line = '';
process.stdin.on('data', (bytes) => {
    const lines = (line + bytes).split('\n');

    line = lines.pop();
    lines.forEach((text) => run(Number(text)));
});
process.stdin.on('end', () => process.exit(0));
