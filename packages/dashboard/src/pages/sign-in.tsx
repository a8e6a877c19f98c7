/** Sign-in page: takes an API key and keeps it in this tab, or starts a sign-in with the identity provider. login.ts signs in with a one-time link. */
import { useEffect, useState, type SubmitEvent } from 'react'
import { ask, headersFor, Problem } from '../api/client.js'
import { readProvider, startSignIn, type SignInProvider } from '../api/login.js'
import { session } from '../api/session.js'
import { oneLine } from '../model/text.js'
import { Brand } from '../parts/glyph.js'

export function SignIn() {
  const [key, setKey] = useState('')
  const [wrong, setWrong] = useState(session.reason())
  const [provider, setProvider] = useState<SignInProvider>(null)
  const [isSending, setSending] = useState(false)

  // Not a query: the cache is cleared when the session ends, which is when this page opens.
  useEffect(() => void readProvider().then(setProvider), [])

  const tryTo = async (work: () => Promise<void>) => {
    setSending(true)
    setWrong(undefined)
    try {
      await work()
    } catch (error) {
      setWrong(reasonFor(error))
    } finally {
      setSending(false)
    }
  }
  const enter = async () => {
    const trimmed = key.trim()
    if (!/^[\x21-\x7e]+$/.test(trimmed))
      return setWrong('Invalid key: it contains characters that keys do not have. Copy the whole key again.')
    await tryTo(async () => {
      await ask('GET /me', { headers: headersFor(trimmed) })
      session.enter({ key: trimmed })
    })
  }
  const submit = (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault()
    void enter()
  }

  return (
    <main className="mx-auto max-w-sm px-4 pt-[18vh]">
      <h1 className="flex items-center gap-2 text-lg font-semibold">
        <Brand size={20} />
      </h1>
      {provider !== null && (
        <button
          type="button"
          className="button button-main mt-4 w-full justify-center"
          disabled={isSending}
          onClick={() => void tryTo(() => startSignIn(provider.origin))}
        >
          Sign in with {oneLine(provider.name, 60)}
        </button>
      )}
      <form className="panel mt-4 space-y-3 p-4" onSubmit={submit}>
        <div>
          <label htmlFor="key" className="font-medium">
            API key
          </label>
          <p id="key-help" className="label">
            Make one with <code>bellwether keys create --role operator</code>. It stays in this tab.
          </p>
        </div>
        <input
          id="key"
          className="field w-full font-mono"
          type="password"
          autoComplete="off"
          spellCheck={false}
          required
          aria-describedby="key-help"
          aria-invalid={wrong !== undefined}
          value={key}
          onChange={(event) => setKey(event.target.value)}
        />
        <p role="alert" className="min-h-5 text-sm text-bad">
          {wrong}
        </p>
        <button
          type="submit"
          className="button button-main w-full justify-center"
          disabled={isSending || key.trim() === ''}
        >
          {isSending ? 'Signing in…' : 'Sign in'}
        </button>
      </form>
      <p className="mt-3 text-sm text-ink-2">
        On the machine of the server you need no key: <code>bellwether open</code> makes a link that signs you in.
      </p>
    </main>
  )
}

function reasonFor(error: unknown): string {
  if (!(error instanceof Problem)) throw error
  return error.status === 401
    ? 'The server does not accept this key. Check it, or create a new one.'
    : oneLine(error.message, 200)
}
