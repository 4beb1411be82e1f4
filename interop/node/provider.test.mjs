// weft with a provider of other people, `oidc-provider`: its tokens, its keys, its absence.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, suite, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

import { Browser, heading } from './browser.mjs';
import { begin, byPassword, discover, finish, login, plan, step } from './login.mjs';
import {
  admin, clear, CLIENT, json, make, password, person, policy, prefix, request, until, url, whoIs,
} from './network.mjs';
import { AUDIENCE, OtherProvider, PROGRAM, ROBOTS } from './provider.mjs';

const bearer = (token) => ({ authorization: `Bearer ${token}` });

/** A login by `authenticate`: the status, and the identity. */
async function authenticate(token) {
  const answer = await json('POST', `${CLIENT}/authenticate?method=ext-jwt`, {}, bearer(token));
  return answer.status === 200 ? answer.json.data.identityId : answer.status;
}

/** `weft` with its settings in the run's folder: exit code and output. */
function weft(words, input = '') {
  const config = path.join(process.env.WEFT_HOME, 'login');
  const environment = { ...process.env, WEFT_PASSWORD: process.env.WEFT_PASSWORD ?? 'admin' };
  return new Promise((resolve) => {
    const options = { env: environment, timeout: 60_000 };
    const all = [...words, '--config-dir', config];
    const child = execFile(process.env.WEFT_BIN, all, options, (error, stdout, stderr) => {
      resolve({ code: error?.code ?? 0, text: stdout + stderr });
    });
    child.stdin.end(input);
  });
}

suite('oidc-provider as external signer', () => {
  let provider;
  let signer;
  let robot;

  const describe = (fields) => ({
    name: `${prefix}-signer`,
    issuer: provider.issuer,
    audience: AUDIENCE,
    jwksEndpoint: `${provider.issuer}/jwks`,
    claimsProperty: '/sub',
    useExternalId: true,
    enabled: true,
    externalAuthUrl: `${provider.issuer}/auth`,
    ...fields,
  });
  const change = (fields) => admin('PATCH', `/external-jwt-signers/${signer}`, fields);

  before(async () => {
    provider = await new OtherProvider().start();
    signer = await make('external-jwt-signers', describe());
    robot = await make('identities', {
      name: `${prefix}-robot`, type: 'Default', isAdmin: false, externalId: ROBOTS[0],
    });
  });
  after(async () => {
    await clear();
    await provider.stop();
  });

  test('a program logs in as itself, by both protocols', async () => {
    const token = await provider.robot();
    assert.equal(await authenticate(token), robot);
    const tokens = await login(await discover(), (id) => step(id, 'ext-jwt', {}, bearer(token)));
    assert.equal(tokens.claims().sub, robot);
    assert.ok(tokens.claims().amr.includes('ext-jwt'), tokens.claims().amr);
    assert.equal(await whoIs(tokens.access_token), robot);
    assert.equal(await authenticate(await provider.robot(ROBOTS[1])), 401, 'of nobody\'s');
  });

  test('a person logs in with an access token, and where the signer says so with the ID token', async () => {
    const { id } = await person('anna', { externalId: 'anna' });
    const tokens = await provider.person('anna');
    assert.equal(await authenticate(tokens.access_token), id);
    assert.equal(await authenticate(tokens.id_token), 401, 'for another audience');
    await change({ audience: PROGRAM, targetToken: 'ID', claimsProperty: '/email' });
    try {
      await admin('PATCH', `/identities/${id}`, { externalId: 'anna@example.com' });
      assert.equal(await authenticate((await provider.person('anna')).id_token), id);
      assert.equal(await authenticate(tokens.access_token), 401);
    } finally {
      await change({ audience: AUDIENCE, targetToken: 'ACCESS', claimsProperty: '/sub' });
    }
  });

  test('a person pastes a token into the page, which names the signer', async () => {
    const { to } = await plan(await discover(), { method: 'ext-jwt' });
    const browser = new Browser();
    const page = await browser.go(to);
    assert.ok(page.text.includes(`${prefix}-signer`), page.text);
    const wrong = await browser.send(page, { token: 'e30.e30.e30' });
    assert.equal(wrong.status, 401);
    assert.match(wrong.text, /The token is not good for a login here/);
    const { left } = await browser.send(wrong, { token: await provider.robot() });
    assert.ok(left.searchParams.get('code'), left.href);
  });

  test('a token as second factor is one of the same identity', async () => {
    const authPolicyId = await policy('second', { requireExtJwtSigner: signer });
    await admin('PATCH', `/identities/${robot}`, { externalId: 'nobody' });
    const berta = await person('berta', { authPolicyId, externalId: ROBOTS[0] });
    const config = await discover();
    try {
      const tokens = await login(config, async (id) => {
        const first = await byPassword(berta, password)(id);
        assert.equal(first.status, 200, first.text);
        const [query] = first.json.authQueries;
        assert.deepEqual([query.typeId, query.id, query.httpUrl], ['EXT-JWT', signer, `${provider.issuer}/auth`]);
        return step(id, 'ext-jwt', {}, bearer(await provider.robot()));
      });
      assert.equal(tokens.claims().sub, berta.id);
      assert.equal(await whoIs(tokens.access_token), berta.id);

      await person('carla', { externalId: ROBOTS[1] });
      const { to } = await plan(config);
      const id = await begin(to);
      await byPassword(berta, password)(id);
      const others = await step(id, 'ext-jwt', {}, bearer(await provider.robot(ROBOTS[1])));
      assert.equal(others.status, 401);
      const callback = await request('GET', `/oidc/authorize/callback?id=${id}`);
      assert.match(callback.headers.location, /error=interaction_required/);
    } finally {
      await admin('PATCH', `/identities/${berta.id}`, { externalId: 'berta' });
      await admin('PATCH', `/identities/${robot}`, { externalId: ROBOTS[0] });
    }
  });

  test('somebody without an identity makes one with a token', async () => {
    const token = async () => {
      provider.claims = { nick: `${prefix}-new`, teams: ['staff', 'berlin'] };
      const { access_token: made } = await provider.person('new');
      provider.claims = {};
      return made;
    };
    const enroll = async () => json('POST', `${CLIENT}/enroll/token`, {}, bearer(await token()));
    assert.equal((await enroll()).status, 409, 'the signer does not allow it');
    await change({
      enrollToTokenEnabled: true,
      enrollNameClaimsSelector: '/nick',
      enrollAttributeClaimsSelector: '/teams',
    });
    const enrolled = await enroll();
    assert.equal(enrolled.status, 200, enrolled.text);
    const id = await authenticate(await token());
    const found = await admin('GET', `/identities/${id}`);
    assert.deepEqual(
      [found.name, found.externalId, [...found.roleAttributes].sort()],
      [`${prefix}-new`, 'new', ['berlin', 'staff']],
    );
    await admin('DELETE', `/identities/${id}`);
    await change({ enrollToTokenEnabled: false });
  });

  test('tokens for other programs and of other issuers are refused', async () => {
    provider.audience = 'another';
    assert.equal(await authenticate(await provider.robot()), 401);
    provider.audience = AUDIENCE;
    const other = await new OtherProvider().start();
    try {
      assert.equal(await authenticate(await other.robot()), 401);
    } finally {
      await other.stop();
    }
    const token = await provider.robot();
    assert.equal(await authenticate(token), robot);
    const [head, , signature] = token.split('.');
    const claims = JSON.parse(Buffer.from(token.split('.')[1], 'base64url'));
    claims.jti = 'forged';
    const forged = Buffer.from(JSON.stringify(claims)).toString('base64url');
    assert.equal(await authenticate(`${head}.${forged}.${signature}`), 401);
    const none = Buffer.from('{"alg":"none","kid":"key-1"}').toString('base64url');
    assert.equal(await authenticate(`${none}.${token.split('.')[1]}.`), 401);
  });

  test('a disabled signer ends its sessions, by both protocols', async () => {
    const token = await provider.robot();
    const old = await json('POST', `${CLIENT}/authenticate?method=ext-jwt`, {}, bearer(token));
    const tokens = await login(await discover(), (id) => step(id, 'ext-jwt', {}, bearer(token)));
    await change({ enabled: false });
    try {
      assert.equal(await whoIs(tokens.access_token), undefined);
      const session = { 'zt-session': old.json.data.token };
      assert.equal((await json('GET', `${CLIENT}/current-identity`, undefined, session)).status, 401);
      assert.equal(await authenticate(token), 401);
    } finally {
      await change({ enabled: true });
    }
    assert.equal(await authenticate(token), robot);
  });

  test('keys roll, and one that is no longer published counts no more', async () => {
    const old = await provider.robot();
    assert.equal(await authenticate(old), robot);
    provider.roll(1);
    const second = await provider.robot();
    // A key that is not known is asked for once in ten seconds.
    await until('a login by the new key', async () => {
      await pause(750);
      return await authenticate(second) === robot;
    });
    assert.equal(await authenticate(old), robot, 'its key is still published');
    provider.roll(1);
    const third = await provider.robot();
    await until('a login by the newest key', async () => {
      await pause(750);
      return await authenticate(third) === robot;
    });
    assert.equal(await authenticate(second), robot);
    assert.equal(await authenticate(old), 401, 'its key is no longer published');
    const [before, begun] = [provider.fetched, Date.now()];
    for (let at = 0; at < 20; at += 1) assert.equal(await authenticate(old), 401);
    const [fetched, most] = [provider.fetched - before, 1 + Math.ceil((Date.now() - begun) / 10_000)];
    assert.ok(fetched <= most, `fetched ${fetched} times, not ${most} at most`);
  });

  test('while the provider is away, its known keys are good', async () => {
    const known = await provider.robot();
    assert.equal(await authenticate(known), robot);
    provider.roll(1);
    const unknown = await provider.robot();
    await provider.stop();
    assert.equal(await authenticate(known), robot);
    assert.equal(await authenticate(unknown), 401);
    const log = process.env.WEFT_LOG_FILE;
    if (log) {
      await until('the log names the provider', async () => {
        await pause(750);
        await authenticate(unknown);
        const lines = (await readFile(log, 'utf8')).split('\n');
        return lines.some((line) => line.includes(`${provider.issuer}/jwks`));
      });
    }
    await provider.start();
    await until('a login once the provider is back', async () => {
      await pause(750);
      return await authenticate(unknown) === robot;
    });
    assert.equal(await authenticate(known), robot);
  });

  test('the commands that set a provider up and log in', { skip: !process.env.WEFT_BIN && 'WEFT_BIN names no weft' }, async () => {
    const ca = process.env.NODE_EXTRA_CA_CERTS;
    const logged = await weft(['login', url, '--ca', ca, '--username', process.env.WEFT_USERNAME ?? 'admin']);
    assert.equal(logged.code, 0, logged.text);
    const other = await new OtherProvider().start();
    try {
      const name = `${prefix}-added`;
      const added = await weft(['signer', 'add', other.issuer, '--name', name, '--audience', AUDIENCE]);
      assert.equal(added.code, 0, added.text);
      const made = await admin('GET', `/external-jwt-signers?filter=${encodeURIComponent(`name="${name}"`)}`);
      assert.deepEqual([made[0].issuer, made[0].jwksEndpoint], [other.issuer, `${other.issuer}/jwks`]);
      const good = await weft(['signer', 'test', '-'], await other.robot());
      assert.equal(good.code, 0, good.text);
      other.audience = 'another';
      const bad = await weft(['signer', 'test', '-'], await other.robot());
      assert.equal(bad.code, 5, bad.text);
      assert.match(bad.text, /audience/);
      other.audience = AUDIENCE;
      const asRobot = await weft(['login', url, '--ca', ca, '--name', 'robot', '--ext-jwt', '-'], await other.robot());
      assert.equal(asRobot.code, 0, asRobot.text);
      await admin('DELETE', `/external-jwt-signers/${made[0].id}`);
    } finally {
      await other.stop();
    }
  });
});
