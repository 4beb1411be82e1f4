// A browser without scripts: it keeps cookies, follows redirects within the controller, and sends forms.

import assert from 'node:assert/strict';

import { request, url } from './network.mjs';

const ENTITIES = { amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'" };

function unescape(text) {
  return text.replace(/&(amp|lt|gt|quot|#39);/g, (_, name) => ENTITIES[name]);
}

/** The attributes of a tag. */
function attributes(tag) {
  const pairs = [...tag.matchAll(/([\w-]+)(?:="([^"]*)")?/g)].slice(1);
  return Object.fromEntries(pairs.map(([, name, value]) => [name, unescape(value ?? '')]));
}

export class Browser {
  cookies = new Map();

  /** Goes to an address; the page at the end of the redirects, or `{ left }` with an address elsewhere. */
  async go(address, method = 'GET', form = undefined) {
    let target = new URL(address, url);
    for (let hops = 0; hops < 10; hops += 1) {
      if (target.origin !== new URL(url).origin) return { left: target };
      const headers = {
        accept: 'text/html,application/xhtml+xml;q=0.9,*/*;q=0.8',
        cookie: [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; '),
      };
      if (form !== undefined) headers['content-type'] = 'application/x-www-form-urlencoded';
      const body = form === undefined ? undefined : new URLSearchParams(form).toString();
      const answer = await request(method, target.pathname + target.search, { headers, body });
      for (const cookie of answer.headers['set-cookie'] ?? []) {
        const [pair] = cookie.split(';');
        this.cookies.set(pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1));
      }
      if (![302, 303].includes(answer.status)) return { ...answer, at: target };
      target = new URL(answer.headers.location, target);
      [method, form] = ['GET', undefined];
    }
    throw new Error(`too many redirects, the last one to ${target}`);
  }

  /** Sends the only form of a page, with its hidden fields and these values. */
  send(page, values = {}) {
    const forms = [...page.text.matchAll(/<form[^>]*>.*?<\/form>/gs)];
    assert.equal(forms.length, 1, page.text);
    const [form] = forms[0];
    const { action, method } = attributes(form.slice(0, form.indexOf('>')));
    assert.equal(method, 'post');
    const hidden = [...form.matchAll(/<input [^>]*>/g)]
      .map(([tag]) => attributes(tag))
      .filter((field) => field.type === 'hidden');
    const fields = Object.fromEntries(hidden.map(({ name, value }) => [name, value]));
    return this.go(new URL(action, page.at), 'POST', { ...fields, ...values });
  }
}

/** The heading of a page. */
export function heading(page) {
  return unescape(page.text?.match(/<h1>(.*?)<\/h1>/)?.[1] ?? `no page: ${page.left ?? page.text}`);
}
