export {};

const path = './longwire/longwire.js'; // unknown to tsc
window.shim = await import(path);
window.client = window.shim.connect({ url: '/ws' });
const inspector = './longwire/inspector.js';
await import(inspector);
const element = document.createElement('longwire-inspector');
Object.assign(element, { connection: window.client });
document.body.append(element);
