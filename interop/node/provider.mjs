// A provider of other people: `oidc-provider` on loopback, whose keys roll and which goes away.

import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import http from 'node:http';
import { Provider } from 'oidc-provider';
import * as client from 'openid-client';

/** What the provider writes into `aud` of access tokens. */
export const AUDIENCE = 'weft';
/** The client that a person logs in with; `aud` of ID tokens. */
export const PROGRAM = 'program';
/** Clients with a secret: programs that log in as themselves. */
export const ROBOTS = ['robot', 'other-robot'];
const SECRET = 'a secret of a robot';
const CALLBACK = 'http://127.0.0.1/callback';

function key(kid) {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return { ...privateKey.export({ format: 'jwk' }), kid, use: 'sig', alg: 'ES256' };
}

export class OtherProvider {
  #server;
  #handler;
  #keys = [];
  #made = 0;
  port = 0;
  /** What access tokens carry beside the usual claims. */
  claims = {};
  audience = AUDIENCE;
  /** How often its keys were fetched. */
  fetched = 0;

  async start() {
    this.#server = http.createServer((request, answer) => {
      if (request.url === '/jwks') this.fetched += 1;
      this.#handler(request, answer);
    });
    this.#server.listen(this.port, '127.0.0.1');
    await once(this.#server, 'listening');
    this.port = this.#server.address().port;
    if (!this.#keys.length) this.roll();
    return this;
  }

  async stop() {
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, 'close');
  }

  get issuer() {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Signs with a new key; of the former ones so many are still published. */
  roll(former = 0) {
    this.#made += 1;
    this.#keys = [key(`key-${this.#made}`), ...this.#keys.slice(0, former)];
    this.#handler = this.#provider().callback();
  }

  #provider() {
    const common = { response_types: [], redirect_uris: [], grant_types: ['client_credentials'] };
    const robots = ROBOTS.map((id) => ({ ...common, client_id: id, client_secret: SECRET }));
    const resource = {
      audience: () => this.audience,
      info: () => ({
        scope: 'network', audience: this.audience, accessTokenFormat: 'jwt', accessTokenTTL: 600,
        jwt: { sign: { alg: 'ES256' } },
      }),
    };
    return new Provider(this.issuer, {
      clients: [...robots, {
        client_id: PROGRAM,
        application_type: 'native',
        token_endpoint_auth_method: 'none',
        redirect_uris: [CALLBACK],
        grant_types: ['authorization_code'],
        response_types: ['code'],
      }],
      clientDefaults: { id_token_signed_response_alg: 'ES256' },
      jwks: { keys: this.#keys },
      cookies: { keys: ['for this run'] },
      conformIdTokenClaims: false,
      claims: { openid: ['sub'], email: ['email'] },
      findAccount: (_, id) => ({
        accountId: id, claims: () => ({ sub: id, email: `${id}@example.com` }),
      }),
      features: {
        clientCredentials: { enabled: true },
        devInteractions: { enabled: true },
        resourceIndicators: {
          enabled: true,
          defaultResource: () => `https://${resource.audience()}.example`,
          getResourceServerInfo: resource.info,
          useGrantedResource: () => true,
        },
      },
      extraTokenClaims: () => this.claims,
      ttl: { ClientCredentials: 600, AccessToken: 600, IdToken: 600, Grant: 600, Session: 600, Interaction: 600 },
    });
  }

  async #config(id, authentication) {
    return client.discovery(new URL(this.issuer), id, undefined, authentication, {
      execute: [client.allowInsecureRequests],
    });
  }

  /** An access token of a program that logs in as itself: `sub` is its id. */
  async robot(id = ROBOTS[0]) {
    const config = await this.#config(id, client.ClientSecretBasic(SECRET));
    const { access_token: token } = await client.clientCredentialsGrant(config, { scope: 'network' });
    return token;
  }

  /** The tokens of a person who logs in on the provider's pages; `sub` is the name. */
  async person(name) {
    const config = await this.#config(PROGRAM, client.None());
    const pkceCodeVerifier = client.randomPKCECodeVerifier();
    const expectedState = client.randomState();
    let at = client.buildAuthorizationUrl(config, {
      redirect_uri: CALLBACK,
      scope: 'openid email network',
      state: expectedState,
      code_challenge: await client.calculatePKCECodeChallenge(pkceCodeVerifier),
      code_challenge_method: 'S256',
    });
    const cookies = new Map();
    let form;
    for (let hops = 0; hops < 20 && at.port === String(this.port); hops += 1) {
      const answer = await fetch(at, {
        method: form ? 'POST' : 'GET',
        body: form && new URLSearchParams(form),
        redirect: 'manual',
        headers: { cookie: [...cookies].map(([key, value]) => `${key}=${value}`).join('; ') },
      });
      for (const cookie of answer.headers.getSetCookie()) {
        const [, key, value] = cookie.match(/^([^=]+)=([^;]*)/);
        if (value) cookies.set(key, value); else cookies.delete(key);
      }
      const to = answer.headers.get('location');
      if (to) {
        at = new URL(to, at);
        form = undefined;
        continue;
      }
      const page = await answer.text();
      assert.equal(answer.status, 200, page);
      const prompt = page.match(/name="prompt" value="(\w+)"/)?.[1];
      form = { prompt, ...(prompt === 'login' ? { login: name, password: 'any' } : {}) };
      at = new URL(page.match(/<form[^>]* action="([^"]+)"/)[1], at);
    }
    return client.authorizationCodeGrant(config, at, { pkceCodeVerifier, expectedState, idTokenExpected: true });
  }
}
