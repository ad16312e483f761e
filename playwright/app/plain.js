export {};

const path = './longwire/longwire.js'; // unknown to tsc
window.shim = await import(path);
window.client = window.shim.connect({ url: '/ws' });
