// A user with a browser, as far as a device login needs one: opens the page, and approves or refuses.
//
//   node user.mjs URL-WITH-CODE approve|refuse
const [, , start, decision] = process.argv;
const cookies = new Map();
const origin = new URL(start).origin;

// Fetches a page, follows redirects, and keeps cookies.
async function open(url, form) {
  for (let hops = 0; hops < 10; hops += 1) {
    const response = await fetch(url, {
      method: form ? "POST" : "GET",
      body: form && new URLSearchParams(form),
      redirect: "manual",
      headers: { cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join("; ") },
    });
    for (const cookie of response.headers.getSetCookie()) {
      const [, name, value] = cookie.match(/^([^=]+)=([^;]*)/);
      if (value) cookies.set(name, value);
      else cookies.delete(name);
    }
    if (![301, 302, 303].includes(response.status)) return { url, text: await response.text() };
    url = new URL(response.headers.get("location"), url).href;
    form = undefined;
  }
  throw new Error("too many redirects");
}

const inputs = (text) =>
  Object.fromEntries(
    [...text.matchAll(/<input[^>]*>/g)]
      .map(([tag]) => [tag.match(/name="([^"]*)"/)?.[1], tag.match(/value="([^"]*)"/)?.[1] ?? ""])
      .filter(([name]) => name),
  );

let page = await open(start);
for (let step = 0; step < 8; step += 1) {
  if (/Sign-in Success|Signin Success|Sign-in Succes/i.test(page.text)) process.exit(0);
  const action = page.text.match(/action="([^"]*)"/)?.[1];
  if (!action) break;
  const form = inputs(page.text);
  const target = new URL(action.replaceAll("&amp;", "&"), page.url).href;
  if ("login" in form) Object.assign(form, { login: "ada", password: "x" });
  if (decision === "refuse" && "xsrf" in form && !("login" in form)) form.abort = "yes";
  else delete form.abort;
  if ("xsrf" in form && decision !== "refuse") form.confirm = "yes";
  page = await open(target, form);
  if (form.abort) process.exit(0);
}
if (/success/i.test(page.text)) process.exit(0);
console.error(`stuck at ${page.url.replace(origin, "")}:\n${page.text}`);
process.exit(1);
