/** Certificates for tests, made by openssl: an authority, and certificates of servers and clients that it signs. */
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'

export interface Certificate {
  /** Files in PEM. */
  readonly cert: string
  readonly key: string
}

export interface Authority extends Certificate {
  /** `names` as in subjectAltName: `DNS:localhost,IP:127.0.0.1`. */
  sign(name: string, names: string): Certificate
}

const openssl = (...args: readonly string[]) =>
  execFileSync('openssl', args, { stdio: ['ignore', 'ignore', 'pipe'], timeout: 60_000 })
const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']

export function makeAuthority(folder: string, name: string): Authority {
  const file = (of: string, end: string) => join(folder, `${of}.${end}`)
  const own = { cert: file(name, 'crt'), key: file(name, 'key') }
  openssl('req', '-x509', ...newKey, '-days', '2', '-subj', `/CN=${name}`, '-keyout', own.key, '-out', own.cert)
  return {
    ...own,
    sign(of, names) {
      const made = { cert: file(of, 'crt'), key: file(of, 'key') }
      const [request, extensions] = [file(of, 'csr'), file(of, 'ext')]
      openssl('req', ...newKey, '-subj', `/CN=${of}`, '-keyout', made.key, '-out', request)
      writeFileSync(extensions, `subjectAltName=${names}\n`)
      const signed = ['-CA', own.cert, '-CAkey', own.key, '-CAcreateserial', '-days', '2', '-extfile', extensions]
      openssl('x509', '-req', '-in', request, ...signed, '-out', made.cert)
      return made
    },
  }
}
