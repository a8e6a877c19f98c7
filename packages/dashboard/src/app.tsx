/** The application: cache, session and pages. Without a key that the server accepts it shows only the sign-in page. */
import { QueryClient, QueryClientProvider, useQuery } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { StrictMode, useEffect, useSyncExternalStore } from 'react'
import { createRoot } from 'react-dom/client'
import { Problem } from './api/client.js'
import { meQuery } from './api/queries.js'
import { session } from './api/session.js'
import { SignIn } from './pages/sign-in.js'
import { Failure } from './parts/query-state.js'
import { router } from './router.js'

const mayPass = ({ status, code }: Problem) => status === 0 || (status >= 500 && code !== 'unreadable')

const client = new QueryClient({
  defaultOptions: {
    queries: {
      // The stream reports changes, so returning to the tab needs no refetch.
      refetchOnWindowFocus: false,
      staleTime: 2_000,
      // A rejection is final; other failures are retried twice.
      retry: (failures, error) => failures < 2 && error instanceof Problem && mayPass(error),
      retryDelay: (failures) => Math.min(4_000, 500 * 2 ** failures),
    },
  },
})

export function start(root: HTMLElement): void {
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={client}>
        <SessionGate />
      </QueryClientProvider>
    </StrictMode>,
  )
}

/** Checks the session once; a later 401 returns here. */
function SessionGate() {
  const isRefused = useSyncExternalStore(session.listen, session.isRefused)
  const me = useQuery({ ...meQuery, enabled: !isRefused })
  useEffect(() => {
    // Cached data of one session must not be visible to the next.
    if (isRefused) client.clear()
  }, [isRefused])
  if (isRefused) return <SignIn />
  if (me.data !== undefined) return <RouterProvider router={router} context={{ me: me.data }} />
  if (me.error !== null && !(me.error instanceof Problem && me.error.status === 401))
    return (
      <main className="mx-auto max-w-xl pt-24">
        <h1 className="px-3 text-lg font-semibold">Bellwether</h1>
        <Failure error={me.error} retry={() => void me.refetch()} />
      </main>
    )
  return (
    <main className="p-8 text-ink-3" role="status">
      <h1 className="sr-only">Bellwether</h1>
      Opening…
    </main>
  )
}
