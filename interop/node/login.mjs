// Logins at weft's provider: the steps by JSON, as SDKs send them, and one-time codes.

import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import * as client from 'openid-client';

import { issuer, json, request } from './network.mjs';

export const REDIRECT = 'http://localhost:20314/auth/callback';

/** The provider as `openid-client` sees it, which verifies the signatures of ID tokens, too. */
export async function discover(id = 'native') {
  const config = await client.discovery(issuer, id, undefined, client.None());
  client.enableNonRepudiationChecks(config);
  return config;
}

/** A login that begins: the URL of `/authorize`, and what the grant of its code checks. */
export async function plan(config, parameters = {}) {
  const pkceCodeVerifier = client.randomPKCECodeVerifier();
  const checks = {
    pkceCodeVerifier,
    expectedState: `${client.randomState()}&="ü`,
    expectedNonce: client.randomNonce(),
    idTokenExpected: true,
  };
  const to = client.buildAuthorizationUrl(config, {
    redirect_uri: REDIRECT,
    scope: 'openid offline_access',
    state: checks.expectedState,
    nonce: checks.expectedNonce,
    code_challenge: await client.calculatePKCECodeChallenge(pkceCodeVerifier),
    code_challenge_method: 'S256',
    ...parameters,
  });
  return { to, checks };
}

/** Calls `/authorize` as a program; the id of the login. */
export async function begin(to) {
  const answer = await request('GET', to.pathname + to.search);
  assert.equal(answer.status, 302, answer.text);
  const id = new URL(answer.headers.location, issuer).searchParams.get('authRequestID');
  assert.ok(id, answer.headers.location);
  return id;
}

/** A step of a login. */
export function step(id, path, body = {}, headers = {}) {
  return json('POST', `/oidc/login/${path}`, { id, ...body }, headers);
}

/** Where a complete login sends the browser: the redirect URI with the code. */
export async function finish(answer) {
  assert.equal(answer.status, 302, answer.text);
  const { pathname, search } = new URL(answer.headers.location, issuer);
  const callback = await request('GET', pathname + search);
  assert.equal(callback.status, 302, callback.text);
  return new URL(callback.headers.location);
}

/** Tokens for a name and a password, or for whatever `give` does with the id of the login. */
export async function login(config, give, parameters) {
  const { to, checks } = await plan(config, parameters);
  const id = await begin(to);
  return client.authorizationCodeGrant(config, await finish(await give(id)), checks);
}

export function byPassword(person, password) {
  return (id) => step(id, 'username', { username: person.name, password });
}

/** The one-time code of a secret (RFC 6238) at a time, `later` steps of 30 s from now. */
export function code(secret, later = 0) {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';
  let bits = '';
  for (const letter of secret.replace(/=+$/, '')) {
    bits += alphabet.indexOf(letter).toString(2).padStart(5, '0');
  }
  const key = Buffer.from(bits.match(/.{8}/g).map((byte) => parseInt(byte, 2)));
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000) + later));
  const mac = createHmac('sha1', key).update(counter).digest();
  const number = mac.readUInt32BE(mac[19] & 15) & 0x7fffffff;
  return String(number % 1_000_000).padStart(6, '0');
}

/** The secret of a URL that authenticator apps scan. */
export function secretOf(provisioningUrl) {
  return new URL(provisioningUrl).searchParams.get('secret');
}
