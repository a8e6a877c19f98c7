/** Entry point of the browser. */
import { signIn } from './api/login.js'
import { start } from './app.js'
import { startTheme } from './theme.js'

startTheme()
void signIn().then(() => start(document.getElementById('root')!))
