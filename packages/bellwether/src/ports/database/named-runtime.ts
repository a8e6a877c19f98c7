/**
 * The driver asks which runtime it is loaded in. Where no global `navigator` says it (Node 20), it creates a `Response`, which loads Node's whole
 * HTTP client: 30 ms of CPU and 3 MB per process. So `navigator` exists while the driver loads, and agents see the globals of their Node.
 */
const isMissing = !('navigator' in globalThis)
if (isMissing) Object.defineProperty(globalThis, 'navigator', { value: { userAgent: 'Node.js' }, configurable: true })

export function forgetRuntime(): void {
  if (isMissing) Reflect.deleteProperty(globalThis, 'navigator')
}
