// The network under test: calls of its management and client API, and what a run makes in it.
//
// WEFT_URL is the controller (https://HOST:PORT), WEFT_USERNAME and WEFT_PASSWORD an administrator.
// Node trusts the network's authorities by NODE_EXTRA_CA_CERTS.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import https from 'node:https';
import { setTimeout as pause } from 'node:timers/promises';

export const url = process.env.WEFT_URL;
export const issuer = new URL('/oidc', url);
export const MANAGEMENT = '/edge/management/v1';
export const CLIENT = '/edge/client/v1';
export const password = 'geheimnis';

// Names of a run are its own, so that runs in one network do not meet.
export const prefix = `node-${randomBytes(3).toString('hex')}`;

/** One request, without following redirects: status, headers (lower case) and text of the answer. */
export function request(method, path, { headers = {}, body, ...tls } = {}) {
  const target = new URL(path, url);
  return new Promise((resolve, reject) => {
    const options = { method, headers, timeout: 60_000, agent: false, ...tls };
    const sent = https.request(target, options, (answer) => {
      const chunks = [];
      answer.on('data', (chunk) => chunks.push(chunk));
      answer.on('error', reject);
      answer.on('end', () => resolve({
        status: answer.statusCode,
        headers: answer.headers,
        text: Buffer.concat(chunks).toString(),
      }));
    });
    sent.on('timeout', () => sent.destroy(new Error(`${method} ${path}: no answer`)));
    sent.on('error', reject);
    sent.end(body);
  });
}

/** A request whose answer is JSON; its status is in `status`. */
export async function json(method, path, body, headers = {}) {
  const answer = await request(method, path, {
    headers: { accept: 'application/json', 'content-type': 'application/json', ...headers },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  return { ...answer, json: answer.text ? JSON.parse(answer.text) : {} };
}

let session;
const made = [];

/** A call of the management API as an administrator: the `data` of its answer. */
export async function admin(method, path, body) {
  if (!session) {
    const credentials = {
      username: process.env.WEFT_USERNAME ?? 'admin',
      password: process.env.WEFT_PASSWORD ?? 'admin',
    };
    const answer = await json('POST', `${MANAGEMENT}/authenticate?method=password`, credentials);
    assert.equal(answer.status, 200, answer.text);
    session = answer.json.data.token;
  }
  const answer = await json(method, MANAGEMENT + path, body, { 'zt-session': session });
  assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${answer.text}`);
  return answer.json.data;
}

/** Makes an entity that is deleted at the end; its id. */
export async function make(kind, fields) {
  const { id } = await admin('POST', `/${kind}`, fields);
  made.push(`/${kind}/${id}`);
  return id;
}

/** Deletes what was made. */
export async function clear() {
  for (const path of made.splice(0).reverse()) {
    await admin('DELETE', path).catch((error) => console.error(`not deleted: ${error.message}`));
  }
}

/** An identity with a password: its id and its name, which is its user name, too. */
export async function person(name, fields = {}) {
  const full = `${prefix}-${name}`;
  const id = await make('identities', { name: full, type: 'Default', isAdmin: false, ...fields });
  await admin('POST', '/authenticators', {
    identityId: id, method: 'updb', username: full, password,
  });
  return { id, name: full };
}

/** The id of an auth policy that allows all primary factors; `secondary` has its second factors. */
export function policy(name, secondary = {}, allowedSigners = []) {
  return make('auth-policies', {
    name: `${prefix}-${name}`,
    primary: {
      cert: { allowed: true, allowExpiredCerts: false },
      extJwt: { allowed: true, allowedSigners },
      updb: {
        allowed: true, lockoutDurationMinutes: 0, maxAttempts: 0, minPasswordLength: 5,
        requireMixedCase: false, requireNumberChar: false, requireSpecialChar: false,
      },
    },
    secondary: { requireTotp: false, ...secondary },
  });
}

/** The identity that an access token acts as; none if it opens nothing. */
export async function whoIs(token) {
  const answer = await json('GET', `${CLIENT}/current-identity`, undefined, {
    authorization: `Bearer ${token}`,
  });
  if (answer.status === 401) return undefined;
  assert.equal(answer.status, 200, answer.text);
  return answer.json.data.id;
}

/** Waits until a step gives something; the last problem is the error. */
export async function until(what, step, seconds = 60) {
  const end = Date.now() + seconds * 1000;
  let problem = 'it never was';
  while (Date.now() < end) {
    try {
      const found = await step();
      if (found) return found;
    } catch (error) {
      problem = error.message;
    }
    await pause(250);
  }
  throw new Error(`${what} within ${seconds} s: ${problem}`);
}
