// A page that follows events in one way, says when the first was there, and goes.
import { follow } from 'way';

const query = new URLSearchParams(location.search);
let seen = false;

follow(query.get('url'), async () => {
  if (seen) return;
  seen = true;
  const body = JSON.stringify({ visit: Number(query.get('visit')), ms: performance.now() });
  await fetch('/loaded', { method: 'POST', body });
  window.close();
});
