// Reads the page again, unless the reader writes in a form, has selected text, or has hidden the page.
const seconds = Number(document.currentScript.dataset.seconds);
const patience = 60_000;
let reading = false;

function isIdle() {
  return !document.hidden && getSelection().isCollapsed && !document.querySelector("input:focus");
}

async function readAnew() {
  const reply = await fetch(location.href, { headers: { Accept: "text/html" }, redirect: "manual", signal: AbortSignal.timeout(patience) });
  if (reply.type === "opaqueredirect") { // to the service's login
    if (isIdle()) location.reload();
    return;
  }
  const read = new DOMParser().parseFromString(await reply.text(), "text/html");
  const page = read.querySelector("main");
  if (!page || !read.querySelector("script[data-seconds]") || !isIdle()) return; // the page of a proxy is none of ours
  const main = document.querySelector("main");
  const place = [...main.querySelectorAll("a")].indexOf(document.activeElement);
  const focused = document.activeElement?.getAttribute("href");
  main.replaceWith(page);
  document.title = read.title;
  if (place < 0) return;
  const links = [...page.querySelectorAll("a")];
  const link = links.find((a) => a.getAttribute("href") === focused) ?? links[Math.min(place, links.length - 1)];
  link?.focus({ preventScroll: true }); // the reader may have scrolled away
}

async function readIfIdle() {
  if (reading || !isIdle()) return;
  reading = true;
  try {
    await readAnew();
  } catch {
    // The service is away: the page says as of when it is.
  } finally {
    reading = false;
  }
}

if (seconds > 0) setInterval(readIfIdle, seconds * 1000);
