// weft's provider seen by `openid-client`, a certified relying party.

import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import * as client from 'openid-client';

import { Browser, heading } from './browser.mjs';
import {
  begin, byPassword, code, discover, finish, login, plan, REDIRECT, secretOf, step,
} from './login.mjs';
import { clear, issuer, json, password, person, policy, request, whoIs } from './network.mjs';

/** The rejection's OAuth error must be this one. */
function problem(error, status = 400) {
  return (thrown) => {
    const found = thrown.error ?? thrown.cause?.error ?? thrown.message;
    assert.equal(found, error, String(thrown.stack));
    if (status && thrown.status) assert.equal(thrown.status, status);
    return true;
  };
}

suite('openid-client at weft\'s provider', () => {
  let anna;
  let config;

  before(async () => {
    anna = await person('anna');
    config = await discover();
  });
  after(clear);

  const tokensOf = (give = byPassword(anna, password), ...rest) => login(config, give, ...rest);

  test('discovery promises what the provider does', () => {
    const metadata = config.serverMetadata();
    assert.equal(metadata.issuer, issuer.href);
    assert.deepEqual(metadata.response_types_supported, ['code']);
    assert.deepEqual(metadata.code_challenge_methods_supported, ['S256']);
    assert.deepEqual(metadata.token_endpoint_auth_methods_supported, ['none']);
    assert.equal(metadata.authorization_response_iss_parameter_supported, true);
    assert.deepEqual([...metadata.grant_types_supported].sort(), [
      'authorization_code',
      'refresh_token',
      'urn:ietf:params:oauth:grant-type:device_code',
      'urn:ietf:params:oauth:grant-type:token-exchange',
    ]);
    assert.equal(metadata.introspection_endpoint, undefined);
    for (const [name, value] of Object.entries(metadata)) {
      if (name.endsWith('_endpoint') || name === 'jwks_uri') {
        assert.ok(value.startsWith(`${issuer.href}/`), `${name}: ${value}`);
      }
    }
  });

  for (const id of ['native', 'openziti']) {
    test(`code with PKCE, by steps of JSON, as ${id}`, async () => {
      const tokens = await login(await discover(id), byPassword(anna, password));
      assert.equal(tokens.token_type, 'bearer');
      assert.ok(tokens.expires_in > 60 && tokens.refresh_token && tokens.id_token);
      const claims = tokens.claims();
      assert.equal(claims.sub, anna.id);
      assert.deepEqual(claims.amr, ['password']);
      assert.equal(await whoIs(tokens.access_token), anna.id);
    });
  }

  test('code with PKCE, on pages', async () => {
    const { to, checks } = await plan(config);
    const browser = new Browser();
    const page = await browser.go(to);
    assert.equal(heading(page), 'Log in');
    const wrong = await browser.send(page, { username: anna.name, password: 'falsch' });
    assert.equal(wrong.status, 401);
    assert.match(wrong.text, /The name or the password is wrong\./);
    const { left } = await browser.send(wrong, { username: anna.name, password });
    assert.equal(left.origin + left.pathname, REDIRECT);
    const tokens = await client.authorizationCodeGrant(config, left, checks);
    assert.equal(tokens.claims().sub, anna.id);
  });

  test('pages and their callback are for the browser that began', async () => {
    const { to } = await plan(config);
    const browser = new Browser();
    const page = await browser.go(to);
    const stranger = new Browser();
    const refused = await stranger.send(page, { username: anna.name, password });
    assert.equal(refused.status, 403);
    assert.equal(heading(refused), 'This login is not yours to continue');
    assert.equal((await stranger.go(page.at)).status, 403);
  });

  test('an enrollment of one-time codes in the middle of a login, and a login with a code', async () => {
    const authPolicyId = await policy('codes', { requireTotp: true });
    const berta = await person('berta', { authPolicyId });
    let secret;
    let given;
    const tokens = await tokensOf(async (id) => {
      const first = await byPassword(berta, password)(id);
      assert.equal(first.status, 200, first.text);
      assert.equal(first.headers['totp-required'], 'true');
      assert.equal(first.json.authQueries[0].typeId, 'TOTP');
      const begun = await step(id, 'totp/enroll');
      assert.equal(begun.status, 201, begun.text);
      secret = secretOf(begun.json.provisioningUrl);
      assert.equal((await step(id, 'totp/enroll/verify', { code: '000000' })).status, 400);
      given = code(secret);
      return step(id, 'totp/enroll/verify', { code: given });
    });
    assert.deepEqual(tokens.claims().amr, ['password', 'totp']);

    const again = await tokensOf(async (id) => {
      await byPassword(berta, password)(id);
      const spent = await step(id, 'totp', { code: given });
      assert.equal(spent.status, 400, 'a code counts once');
      // Clocks may differ by a step.
      return step(id, 'totp', { code: code(secret, 1) });
    });
    assert.equal(await whoIs(again.access_token), berta.id);

    const { to, checks } = await plan(config);
    const half = await begin(to);
    await byPassword(berta, password)(half);
    const callback = await request('GET', `/oidc/authorize/callback?id=${half}`);
    await assert.rejects(
      client.authorizationCodeGrant(config, new URL(callback.headers.location), checks),
      problem('interaction_required', 0),
    );
  });

  test('refresh gives new tokens, and a lost answer again', async () => {
    const first = await tokensOf();
    const second = await client.refreshTokenGrant(config, first.refresh_token);
    assert.notEqual(second.refresh_token, first.refresh_token);
    assert.equal(second.claims().sub, anna.id);
    const repeated = await client.refreshTokenGrant(config, first.refresh_token);
    const third = await client.refreshTokenGrant(config, repeated.refresh_token);
    assert.equal(await whoIs(third.access_token), anna.id);
    // Two refreshes later it is no lost answer: somebody has a copy, and the session ends.
    const fourth = await client.refreshTokenGrant(config, third.refresh_token);
    await assert.rejects(
      client.refreshTokenGrant(config, first.refresh_token), problem('invalid_grant'),
    );
    await assert.rejects(
      client.refreshTokenGrant(config, fourth.refresh_token), problem('invalid_grant'),
    );
    assert.equal(await whoIs(fourth.access_token), undefined);
  });

  test('without offline_access there is no refresh token', async () => {
    const tokens = await tokensOf(undefined, { scope: 'openid' });
    assert.equal(tokens.refresh_token, undefined);
    assert.equal(tokens.claims().sub, anna.id);
  });

  test('a refresh token is exchanged, and an access token for no refresh token', async () => {
    const tokens = await tokensOf();
    const type = (name) => `urn:ietf:params:oauth:token-type:${name}`;
    const exchange = (subject, of, wanted) => client.genericGrantRequest(
      config, 'urn:ietf:params:oauth:grant-type:token-exchange',
      { subject_token: subject, subject_token_type: type(of), requested_token_type: type(wanted) },
    );
    const id = await exchange(tokens.refresh_token, 'refresh_token', 'id_token');
    assert.equal(id.issued_token_type, type('id_token'));
    const access = await exchange(tokens.access_token, 'access_token', 'access_token');
    assert.equal(await whoIs(access.access_token), anna.id);
    await assert.rejects(exchange(tokens.access_token, 'access_token', 'refresh_token'), problem('invalid_request'));
    await assert.rejects(exchange(tokens.id_token, 'id_token', 'access_token'), problem('invalid_request'));
  });

  test('userinfo', async () => {
    const tokens = await tokensOf();
    const claims = await client.fetchUserInfo(config, tokens.access_token, anna.id);
    assert.deepEqual(claims, { sub: anna.id, name: anna.name });
    await assert.rejects(client.fetchUserInfo(config, 'e30.e30.e30', anna.id), (error) => {
      assert.equal(error.status ?? error.cause?.status ?? error.cause?.response?.status, 401);
      return true;
    });
  });

  test('revocation of an access token, of a session, and of nonsense', async () => {
    const first = await tokensOf();
    const tokens = await client.refreshTokenGrant(config, first.refresh_token);
    await client.tokenRevocation(config, tokens.access_token);
    assert.equal(await whoIs(tokens.access_token), undefined);
    const next = await client.refreshTokenGrant(config, tokens.refresh_token);
    assert.equal(await whoIs(next.access_token), anna.id);
    await client.tokenRevocation(config, next.refresh_token, { token_type_hint: 'refresh_token' });
    assert.equal(await whoIs(next.access_token), undefined);
    await assert.rejects(
      client.refreshTokenGrant(config, next.refresh_token), problem('invalid_grant'),
    );
    await client.tokenRevocation(config, 'nonsense');
    await client.tokenRevocation(config, anna.id);
    assert.equal(await whoIs((await tokensOf()).access_token), anna.id);
  });

  test('end of a session', async () => {
    const [tokens, other] = [await tokensOf(), await tokensOf()];
    const to = client.buildEndSessionUrl(config, {
      id_token_hint: tokens.id_token,
      post_logout_redirect_uri: 'http://localhost:20314/auth/logout',
      state: 'a&b',
    });
    const { left } = await new Browser().go(to);
    assert.equal(left.href, 'http://localhost:20314/auth/logout?state=a%26b');
    assert.equal(await whoIs(tokens.access_token), undefined);
    await assert.rejects(
      client.refreshTokenGrant(config, tokens.refresh_token), problem('invalid_grant'),
    );
    assert.equal(await whoIs(other.access_token), anna.id, 'the other session goes on');

    const open = client.buildEndSessionUrl(config, {
      id_token_hint: other.id_token, post_logout_redirect_uri: 'https://evil.example/',
    });
    assert.equal(heading(await new Browser().go(open)), 'You are logged out');
    const nothing = client.buildEndSessionUrl(config, {});
    assert.equal(heading(await new Browser().go(nothing)), 'Nothing was changed');
  });

  test('a device without a browser', async () => {
    const device = await client.initiateDeviceAuthorization(config, { scope: 'openid offline_access' });
    assert.match(device.user_code, /^[A-Z]{4}-[A-Z]{4}$/);
    assert.equal(device.expires_in, 300);
    const early = client.genericGrantRequest(
      config, 'urn:ietf:params:oauth:grant-type:device_code', { device_code: device.device_code },
    );
    await assert.rejects(early, problem('authorization_pending'));
    const tokens = client.pollDeviceAuthorizationGrant(config, device);

    const browser = new Browser();
    const asked = await browser.go(device.verification_uri);
    assert.equal(heading(asked), 'Log in a device');
    const wrong = await browser.send(asked, { user_code: 'BBBB-BBBB' });
    assert.match(wrong.text, /No device shows this code/);
    const page = await browser.send(wrong, { user_code: device.user_code.toLowerCase() });
    const consent = await browser.send(page, { username: anna.name, password });
    assert.equal(heading(consent), 'Is this your device?');
    assert.ok(consent.text.includes(anna.name));
    const done = await browser.send(consent, { decision: 'agree' });
    assert.equal(heading(done), 'The device is logged in');
    assert.equal(await whoIs((await tokens).access_token), anna.id);
  });

  test('a device that is refused', async () => {
    const device = await client.initiateDeviceAuthorization(config, { scope: 'openid' });
    const browser = new Browser();
    const page = await browser.send(
      await browser.go(device.verification_uri_complete), { user_code: device.user_code },
    );
    const consent = await browser.send(page, { username: anna.name, password });
    await browser.send(consent, { decision: 'refuse' });
    await assert.rejects(client.pollDeviceAuthorizationGrant(config, device), problem('access_denied'));
  });

  test('a code is for its client, its redirect URI and its verifier, and for once', async () => {
    const { to, checks } = await plan(config);
    const id = await begin(to);
    const back = await finish(await byPassword(anna, password)(id));
    await assert.rejects(
      client.authorizationCodeGrant(config, back, {
        ...checks, pkceCodeVerifier: client.randomPKCECodeVerifier(),
      }),
      problem('invalid_grant'),
    );
    await assert.rejects(
      client.authorizationCodeGrant(await discover('openziti'), back, checks), problem('invalid_grant'),
    );
    const tokens = await client.authorizationCodeGrant(config, back, checks);
    assert.equal(await whoIs(tokens.access_token), anna.id);
    await assert.rejects(
      client.authorizationCodeGrant(config, back, checks), problem('invalid_grant'),
    );
    assert.equal(await whoIs(tokens.access_token), undefined, 'the session of a code that was used twice ends');
    await assert.rejects(
      client.authorizationCodeGrant(config, new URL(`${REDIRECT}?${new URLSearchParams({
        iss: issuer.href, state: checks.expectedState, code: 'unknown',
      })}`), checks),
      problem('invalid_grant'),
    );
  });

  test('an answer of another issuer is none of this login', async () => {
    const { to, checks } = await plan(config);
    const back = await finish(await byPassword(anna, password)(await begin(to)));
    assert.equal(back.searchParams.get('state'), checks.expectedState);
    back.searchParams.set('iss', 'https://evil.example/oidc');
    await assert.rejects(client.authorizationCodeGrant(config, back, checks), (error) => {
      assert.match(error.cause.message, /"iss"/);
      return true;
    });
  });

  for (const [what, parameters, error] of [
    ['prompt=none', { prompt: 'none' }, 'login_required'],
    ['another response type', { response_type: 'token' }, 'unsupported_response_type'],
    ['plain PKCE', { code_challenge_method: 'plain' }, 'invalid_request'],
    ['no scope', { scope: '' }, 'invalid_request'],
    ['a request object', { request: 'e30.e30.' }, 'request_not_supported'],
  ]) {
    test(`${what} is refused at the redirect URI: ${error}`, async () => {
      const { to, checks } = await plan(config, parameters);
      const answer = await request('GET', to.pathname + to.search);
      assert.equal(answer.status, 302, answer.text);
      const back = new URL(answer.headers.location);
      assert.equal(back.searchParams.get('iss'), issuer.href);
      await assert.rejects(
        client.authorizationCodeGrant(config, back, checks), problem(error, 0),
      );
    });
  }

  for (const [what, parameters] of [
    ['an unknown client', { client_id: 'evil' }],
    ['an unknown redirect URI', { redirect_uri: 'https://evil.example/auth/callback' }],
    ['a redirect URI with a name before its host', { redirect_uri: 'http://localhost@evil.example/auth/callback' }],
  ]) {
    test(`${what} is refused without a redirect`, async () => {
      const { to } = await plan(config, parameters);
      const answer = await json('GET', to.pathname + to.search);
      assert.equal(answer.status, 400);
      assert.ok(answer.json.error, answer.text);
      assert.equal(answer.headers.location, undefined);
    });
  }

  for (const grant of ['client_credentials', 'password', 'urn:ietf:params:oauth:grant-type:jwt-bearer']) {
    test(`there is no grant ${grant}`, async () => {
      await assert.rejects(
        client.genericGrantRequest(config, grant, { username: anna.name, password, assertion: 'x' }),
        problem('unsupported_grant_type'),
      );
    });
  }
});
