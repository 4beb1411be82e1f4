// The login pages in headless Chromium (WEFT_CHROMIUM).

import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import { after, before, suite, test } from 'node:test';
import * as client from 'openid-client';
import { chromium } from 'playwright-core';

import { code, discover, plan } from './login.mjs';
import { clear, CLIENT, password, person, policy, url, whoIs } from './network.mjs';

const COOKIE = '__Host-weft-login';

/** What a person sees of the contrast between texts and what is behind them (WCAG 2.2, 1.4.3). */
function contrasts() {
  const parse = (text) => text.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((part) => {
      const value = part / 255;
      return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const all = [...document.querySelectorAll('h1, p, a, label, button, input, .error, dt, dd')];
  return all.filter((element) => element.type !== 'hidden').map((element) => {
    const pair = [light(parse(getComputedStyle(element).color)), light(behind(element))];
    const ratio = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    return { what: element.outerHTML.slice(0, 80), ratio };
  });
}

suite('login pages in Chromium', () => {
  let browser;
  let program;
  let config;
  let anna;
  const seen = [];

  before(async () => {
    browser = await chromium.launch({
      executablePath: process.env.WEFT_CHROMIUM, args: ['--no-sandbox'],
    });
    // The program that a person logs in to: it waits for the browser, and shows pages of its own.
    program = http.createServer((request, answer) => {
      seen.push(request.url);
      answer.setHeader('content-type', 'text/html');
      answer.end(request.url.startsWith('/page?')
        ? decodeURIComponent(request.url.slice('/page?'.length)) : '<h1>Back in the program</h1>');
    });
    program.listen(0, 'localhost');
    await once(program, 'listening');
    config = await discover();
    anna = await person('anna');
  });
  after(async () => {
    await browser?.close();
    program?.close();
    program?.closeAllConnections();
    await clear();
  });

  const ofProgram = (path) => `http://localhost:${program.address().port}${path}`;

  /** A browser of its own: its page, and what it complains about. */
  async function visitor(options = {}) {
    const context = await browser.newContext({ ignoreHTTPSErrors: true, ...options });
    const page = await context.newPage();
    const complaints = [];
    page.on('console', (message) => {
      // The status of a page that says what was wrong is no complaint.
      if (message.type() === 'error' && !/status of 4\d\d/.test(message.text())) {
        complaints.push(message.text());
      }
    });
    page.on('pageerror', (error) => complaints.push(error.message));
    return { context, page, complaints };
  }

  /** Begins a login in a browser. */
  async function begin(page, parameters = {}) {
    const { to, checks } = await plan(config, {
      redirect_uri: ofProgram('/auth/callback'), ...parameters,
    });
    await page.goto(to.href);
    return checks;
  }

  const title = (page) => page.locator('h1').textContent();

  async function give(page, fields) {
    for (const [name, value] of Object.entries(fields)) await page.locator(`[name=${name}]`).fill(value);
    await page.locator('main form button[type=submit]').last().click();
  }

  /** The identity of the login that ends at the program. */
  async function back(page, checks) {
    await page.waitForURL((at) => at.href.startsWith(ofProgram('/auth/callback')));
    assert.equal(await title(page), 'Back in the program');
    const tokens = await client.authorizationCodeGrant(config, new URL(page.url()), checks);
    assert.equal(tokens.claims().sub, await whoIs(tokens.access_token));
    return tokens;
  }

  for (const javaScriptEnabled of [true, false]) {
    test(`a password and one-time codes, ${javaScriptEnabled ? 'with' : 'without'} JavaScript`, async () => {
      const name = `berta-${javaScriptEnabled}`;
      const authPolicyId = await policy(name, { requireTotp: true });
      const berta = await person(name, { authPolicyId });
      const { context, page, complaints } = await visitor({ javaScriptEnabled });

      let checks = await begin(page);
      assert.equal(await title(page), 'Log in');
      await give(page, { username: berta.name, password: 'falsch' });
      assert.equal(await page.getByRole('alert').textContent(), 'The name or the password is wrong.');
      assert.equal(await page.locator('[name=username]').getAttribute('aria-invalid'), 'true');
      await give(page, { username: berta.name, password });
      assert.equal(await title(page), 'Set up one-time codes');
      await page.getByRole('button', { name: 'Set up' }).click();
      const secret = await page.locator('b.code').textContent();
      const picture = await page.getByAltText('QR code of the key above').boundingBox();
      assert.ok(picture.width > 100 && picture.height > 100, 'a picture that an app can scan');
      await give(page, { code: '000000' });
      assert.equal(await page.getByRole('alert').textContent(), 'The code is wrong, or was used before.');
      const first = code(secret);
      await give(page, { code: first });
      assert.equal(await title(page), 'Keep your recovery codes');
      const recovery = await page.locator('ul.codes li').allTextContents();
      assert.ok(recovery.length >= 10, recovery);
      await page.getByRole('link', { name: 'Continue' }).click();
      let tokens = await back(page, checks);
      assert.equal(tokens.claims().sub, berta.id);
      assert.deepEqual(tokens.claims().amr, ['password', 'totp']);

      checks = await begin(page);
      await give(page, { username: berta.name, password });
      assert.equal(await title(page), 'Enter your code');
      await give(page, { code: first });
      assert.equal(await page.getByRole('alert').textContent(), 'The code is wrong, or was used before.');
      await give(page, { code: recovery[0] });
      tokens = await back(page, checks);
      assert.equal(tokens.claims().sub, berta.id);
      assert.deepEqual(complaints, []);
      await context.close();
    });
  }

  for (const [colorScheme, background] of [['light', 'rgb(244, 245, 247)'], ['dark', 'rgb(16, 20, 24)']]) {
    test(`colours of a ${colorScheme} browser, readable`, async () => {
      const { context, page, complaints } = await visitor({ colorScheme });
      await begin(page);
      await give(page, { username: anna.name, password: 'falsch' });
      assert.equal(await page.locator('body').evaluate((it) => getComputedStyle(it).backgroundColor), background);
      for (const { what, ratio } of await page.evaluate(contrasts)) {
        assert.ok(ratio >= 4.5, `${ratio.toFixed(2)}: ${what}`);
      }
      assert.deepEqual(complaints, []);
      await context.close();
    });
  }

  test('a small screen and the keyboard', async () => {
    const { context, page } = await visitor({ viewport: { width: 320, height: 480 } });
    const checks = await begin(page);
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(width <= 320, `the page is ${width} wide`);
    await page.keyboard.type(anna.name);
    await page.keyboard.press('Tab');
    await page.keyboard.type(password);
    await page.keyboard.press('Enter');
    assert.equal((await back(page, checks)).claims().sub, anna.id);
    await context.close();
  });

  test('a program with a scheme of its own gets the code', async () => {
    const { context, page, complaints } = await visitor();
    const last = page.waitForResponse((answer) => answer.url().includes('/oidc/authorize/callback'));
    await begin(page, { redirect_uri: 'openziti://auth/callback' });
    await give(page, { username: anna.name, password });
    const to = (await last).headers().location;
    assert.match(to, /^openziti:\/\/auth\/callback\?.*code=/);
    assert.deepEqual(complaints.filter((text) => !text.includes('scheme does not have a registered handler')), []);
    await context.close();
  });

  test('a device is logged in', async () => {
    const device = await client.initiateDeviceAuthorization(config, { scope: 'openid' });
    const tokens = client.pollDeviceAuthorizationGrant(config, device);
    const { context, page, complaints } = await visitor();
    await page.goto(device.verification_uri);
    await give(page, { user_code: 'BCDF-GHJK' });
    assert.equal(await page.getByRole('alert').textContent(), 'No device shows this code, or it is too old.');
    await page.goto(device.verification_uri_complete);
    assert.equal(await page.locator('[name=user_code]').inputValue(), device.user_code);
    await give(page, {});
    await give(page, { username: anna.name, password });
    assert.equal(await title(page), 'Is this your device?');
    assert.ok((await page.locator('dl').textContent()).includes(anna.name));
    await page.getByRole('button', { name: 'Agree' }).click();
    assert.equal(await title(page), 'The device is logged in');
    assert.equal((await tokens).claims().sub, anna.id);
    assert.deepEqual(complaints, []);
    await context.close();
  });

  test('the cookie is the browser\'s alone, and opens no API', async () => {
    const { context, page } = await visitor();
    await begin(page);
    const [cookie, ...others] = await context.cookies();
    assert.deepEqual(others, []);
    assert.deepEqual(
      [cookie.name, cookie.path, cookie.httpOnly, cookie.secure, cookie.sameSite],
      [COOKIE, '/', true, true, 'Lax'],
    );
    assert.equal(cookie.domain, new URL(url).hostname, 'of this host, and of none below it');
    assert.ok(cookie.expires - Date.now() / 1000 <= 601);
    assert.equal(await page.evaluate(() => document.cookie), '');
    await page.goto(`${url}${CLIENT}/version`);
    const status = await page.evaluate(async (path) => (await fetch(path)).status, `${CLIENT}/current-identity`);
    assert.equal(status, 401);
    await context.close();
  });

  test('a page of another browser\'s login does not go on', async () => {
    const [mine, theirs] = [await visitor(), await visitor()];
    await begin(theirs.page);
    const answer = await mine.page.goto(theirs.page.url());
    assert.equal(answer.status(), 403);
    assert.equal(await title(mine.page), 'This login is not yours to continue');
    for (const { context } of [mine, theirs]) await context.close();
  });

  test('a page of another site sends no form in a person\'s browser', async () => {
    const { context, page } = await visitor();
    await begin(page);
    const id = new URL(page.url()).searchParams.get('authRequestID');
    const form = `<form method=post action="${url}/oidc/login/username"><input name=id value="${id}">`
      + `<input name=username value="${anna.name}"><input name=password value="${password}">`
      + '<button>Win</button></form>';
    await page.goto(ofProgram(`/page?${encodeURIComponent(form)}`));
    await page.getByRole('button').click();
    assert.equal(await title(page), 'This login is not yours to continue');
    await context.close();
  });

  test('no page frames a login', async () => {
    const { context, page, complaints } = await visitor();
    await begin(page);
    const framing = `<iframe src="${page.url()}"></iframe>`;
    await page.goto(ofProgram(`/page?${encodeURIComponent(framing)}`));
    await page.waitForLoadState('load');
    const framed = page.frames().find((frame) => frame !== page.mainFrame());
    assert.equal(await framed.locator('input').count(), 0);
    assert.ok(complaints.some((text) => text.includes('frame-ancestors')), complaints);
    await context.close();
  });

  test('a logout returns to the program', async () => {
    const { context, page } = await visitor();
    const checks = await begin(page);
    await give(page, { username: anna.name, password });
    const tokens = await back(page, checks);
    await page.goto(client.buildEndSessionUrl(config, {
      id_token_hint: tokens.id_token, post_logout_redirect_uri: ofProgram('/auth/logout'), state: 'x',
    }).href);
    assert.equal(page.url(), ofProgram('/auth/logout?state=x'));
    assert.equal(await whoIs(tokens.access_token), undefined);
    await context.close();
  });
});
